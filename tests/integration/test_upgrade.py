"""An upgrade beneath running processes: what they start is found, wherever its code is by then.

The names and paths here are those of the past: a move of modules does not change them.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from andon.jobs.folder import END, JobsFolder
from tests.conftest import REPOSITORY
from tests.integration.queueing import cleaned, dispatcher_pid, kill_dispatcher, settle
from tests.support.rows import rows
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.cold]
BEFORE = "f27b9b22"  # the last commit that started processes by their modules
SOURCE = REPOSITORY / "src" / "andon"
SUPERVISE = "import sys; sys.path.append(sys.argv[1]); import supervisor as s; sys.exit(s.main())"
"""The code that a dispatcher of BEFORE gives to Python."""


@rows(
    ("module", "arguments", "code", "printed"),
    [
        (("app", "container_job"), ("clean", "k7qm2"), 125, "no container engine"),
        (("app", "dispatching"), ("/nowhere", "0"), 1, "in _announce"),
        (("app", "remembering"), ("/nowhere",), 1, ""),
        (("app", "user_reader"), ("0", "0", "0", "root"), 1, "not enough values to unpack"),
        (("cli", "commands", "setup", "selftest_load"), ("0",), 0, "no framework"),
        (("engine", "functions", "child"), ("0", "1"), 0, ""),
        (("leases", "holder"), ("0",), 1, "Socket operation on non-socket"),
        (("reader",), ("-",), 0, ""),
    ],
)
def test_each_module_of_a_process_is_found(
    module: tuple[str, ...], arguments: tuple[str, ...], code: int, printed: str
) -> None:
    name = ".".join(("andon", *module))
    environment = {
        "PATH": "/nowhere",
        "XDG_STATE_HOME": os.devnull,
        "PYTHONPATH": str(SOURCE.parent),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", name, *arguments],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert printed in done.stdout + done.stderr
    if not printed:
        assert done.stderr == ""


def test_each_script_is_found_at_its_path(tmp_path: Path) -> None:
    record, python = tmp_path / "record.jsonl", [sys.executable, "-I", "-S"]
    scribe, tee = (SOURCE.joinpath("engine", "running", f"{name}.py") for name in ("scribe", "tee"))
    jobs = SOURCE.joinpath("engine", "jobs")
    subprocess.run([*python, scribe, record], input=b'{"a": 1}\n', check=True)
    assert record.read_text() == '{"a": 1}\n'
    asked, answer = os.pipe()
    passed = subprocess.run(
        [*python, tee, str(asked), str(answer)],
        input=b"a line\n", stderr=subprocess.PIPE, pass_fds=(asked, answer), check=True,
    )  # fmt: skip
    assert passed.stderr == b"a line\n"
    for descriptor in (asked, answer):
        os.close(descriptor)
    supervisor = [*python, "-c", SUPERVISE, str(jobs)]
    done = subprocess.run(supervisor, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "non-socket" in done.stderr, "it asks for its task"


def source_of(commit: str) -> bytes:
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True)
    if packed.returncode != 0:
        # The tests above need no history, and find the same.
        pytest.skip(f"commit {commit} is not in this clone: fetch the whole history")
    return packed.stdout


def has_ended(folder: JobsFolder, number: int) -> bool:
    """Looks at the files alone: a command about jobs would start a dispatcher."""
    return (folder.attempt(number, 1) / END).exists()


def test_jobs_start_and_end_while_andon_is_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, go = tmp_path / "site", tmp_path / "go"
    with tarfile.open(fileobj=io.BytesIO(source_of(BEFORE))) as archive:
        archive.extractall(tmp_path / "before", filter="data")
    (tmp_path / "before" / "src").rename(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    folder = settle(monkeypatch, tmp_path, idle="1h")

    def submit(*words: str) -> int:
        command = [sys.executable, "-P", "-m", "andon", "submit", "--simulate", "4", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return int(done.stdout)

    with cleaned(folder):
        long = submit("--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done")
        wait_for(lambda: (folder.attempt(long, 1) / "claim").exists())
        old = dispatcher_pid(folder)
        shutil.rmtree(site / "andon")
        shutil.copytree(SOURCE, site / "andon", ignore=shutil.ignore_patterns("static"))
        new = submit("--", "true")
        wait_for(lambda: has_ended(folder, new))
        assert dispatcher_pid(folder) == old, "the dispatcher of before started it"
        after = submit("--after", str(long), "--", "true")
        assert kill_dispatcher(folder)
        go.touch()
        wait_for(lambda: has_ended(folder, after))
        assert dispatcher_pid(folder) not in (None, old), "the supervisor of before started it"
