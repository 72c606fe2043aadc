"""What the tests of containers share: a folder to work in beside a real engine, and looks at it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.parts import Docker
from tests.support.homes import own_folders
from tests.support.waiting import wait_for

NO_NETWORK = "--container-option=--network=none"
LONG_SECONDS = 90.0


@contextmanager
def work_folder(docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder, with a book, a state folder and temporary files of its own; whatever
    containers a failed test leaves are removed."""
    folder, homes = tmp_path / "work", tmp_path / "homes"
    folder.mkdir()
    homes.mkdir()
    homes.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(homes))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{docker.socket}")
    monkeypatch.setenv("ANDON_WORK_GRACE", "1s")  # a first process in a container ignores SIGTERM
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    yield folder
    for left in docker("ps", "--all", "--quiet").split():
        docker("rm", "--force", left)


def containers(docker: Docker) -> list[str]:
    return docker("ps", "--all", "--no-trunc", "--quiet").split()


def first_pid(docker: Docker) -> int:
    """The host's pid of the one container's first process, once it runs."""
    found: list[int] = []

    def runs() -> bool:
        with suppress(AssertionError):  # it may be gone between the two questions
            ids = docker("ps", "--quiet").split()
            found[:] = [int(docker("inspect", "--format", "{{.State.Pid}}", i)) for i in ids]
        return bool(found and found[0])

    wait_for(runs, LONG_SECONDS)
    return found[0]
