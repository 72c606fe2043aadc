"""A container engine that hangs, floods or answers nonsense: told in words, nothing is left."""

import importlib
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from andon.app import container_work
from andon.engines.containers import DockerEngine
from andon.errors import AndonError
from andon.host.processes.child_output import MOST_BYTES, ask_command, dying_with_parent
from andon.model.execution import ContainerOptions, CreatedWork, WorkEnd, WorkOrder
from andon.standalone import STANDALONE
from tests.support.replaced import constants
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process
GOOD = """
case "$1" in
  info) echo '{}';;
  image) echo sha256:1;;
  create) echo 12ab;;
  inspect) echo '{"Status": "exited", "ExitCode": 3}';;
esac
"""
WORK = CreatedWork("12ab", "k7qm2", "true", "img", None)


def order(folder: Path) -> WorkOrder:
    return WorkOrder(("true",), str(folder), "k7qm2", container=ContainerOptions("img"))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its script; `GOOD` answers as the engine does."""
    script = tmp_path / "bin" / "docker"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n{GOOD}")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/bin:/usr/bin")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return script


def load_supervisor(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """It imports the modules beside it, as its own process does."""
    monkeypatch.syspath_prepend(str(STANDALONE))
    return importlib.import_module("job_supervisor")


def test_one_that_answers_as_expected(engine: Path, tmp_path: Path) -> None:
    assert DockerEngine().create(order(tmp_path)).id == "12ab"
    assert DockerEngine().ended(WORK) == WorkEnd(3)


@pytest.mark.parametrize(
    "answer",
    ["true", "printf -- '--force\\n'", "head -c 2000 /dev/urandom", "printf 'a\\033[2J b\\n'",
     f"{sys.executable} -c 'print(chr(91) * 200000)'"],
)  # fmt: skip
def test_nonsense_is_told_and_nothing_is_left(engine: Path, tmp_path: Path, answer: str) -> None:
    engine.write_text(f"#!/bin/sh\n{answer}\n")
    with pytest.raises(AndonError, match="not understood"):
        DockerEngine().create(order(tmp_path))
    with pytest.raises(AndonError, match="not understood"):
        DockerEngine().ended(WORK)
    assert not list(tmp_path.glob("andon-home-*"))


def test_a_flood_is_not_kept(engine: Path) -> None:
    engine.write_text("#!/bin/sh\nexec yes\n")
    with pytest.raises(AndonError, match="printed more than"):
        DockerEngine().ended(WORK)
    assert len(ask_command(["head", "-c", str(MOST_BYTES), "/dev/zero"], 20.0)[1])


def test_one_that_hangs_is_ended_with_its_children(engine: Path) -> None:
    engine.write_text("#!/bin/sh\nsleep 600 & wait\n")
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        ask_command([str(engine)], 0.2)
    assert time.monotonic() - began < 10.0


def test_one_that_hangs_dies_with_the_process_that_asked(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hangs = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"
    asks = (
        "from andon.host.processes.child_output import ask_command; "
        f"ask_command(['sh', '-c', {hangs!r}], 9)"
    )
    with subprocess.Popen([sys.executable, "-c", asks]) as asker:
        wait_for(pid.exists)
        asker.kill()
    child = int(pid.read_text())
    wait_for(lambda: not Path(f"/proc/{child}").exists() or is_zombie(child))


@pytest.mark.parametrize("setpriv", [None, "exit 1", 'shift 2; exec "$@"'])
def test_what_dies_with_its_parent_is_started_by_a_program_that_can_do_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setpriv: str | None
) -> None:
    (tmp_path / "true").symlink_to("/bin/true")
    if setpriv is not None:
        (tmp_path / "setpriv").write_text(f"#!/bin/sh\n{setpriv}\n")
        (tmp_path / "setpriv").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    words, first = dying_with_parent.__wrapped__()
    able = setpriv is not None and "shift" in setpriv
    assert (words[:1], first is None) == (("setpriv",) if able else (), able)


def is_zombie(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


@pytest.mark.parametrize("code", [2**70, -1, 256, True])
def test_an_exit_code_that_no_command_has_is_not_understood(engine: Path, code: int) -> None:
    said = json.dumps({"Status": "exited", "ExitCode": code if code is not True else "3"})
    engine.write_text(f"#!/bin/sh\necho '{said}'\n")
    with pytest.raises(AndonError, match="not understood"):
        DockerEngine().ended(WORK)


def test_only_what_our_own_note_names_is_removed(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine lists a container that we never made, under our labels and a folder of theirs."""
    theirs, calls = tmp_path / "andon-home-mine", tmp_path / "calls"
    theirs.mkdir()
    labels = json.dumps({"andon.lease": "k7qm2", "andon.uid": "0", "andon.home": str(theirs)})
    lies = f"""
    echo "$@" >> {calls}
    case "$1$*" in
      ps*) echo feed;;
      *Labels*) echo '{labels}';;
    esac
    """
    engine.write_text(f"#!/bin/sh\n{lies}\n{GOOD}")
    docker = DockerEngine()
    made = docker.create(order(tmp_path))
    assert made.home is not None
    assert [work.id for work in docker.find("k7qm2")] == ["12ab"]
    assert [work.id for work in docker.leftovers(frozenset())] == ["12ab"]
    for work in docker.find("k7qm2"):
        docker.clean(work)
    assert (Path(made.home).exists(), theirs.exists()) == (False, True)
    assert docker.find("k7qm2") == []
    assert [line for line in calls.read_text().splitlines() if line.startswith("rm")] == [
        "rm --force --volumes 12ab"
    ]


@pytest.mark.parametrize(("living", "code"), [(True, 125), (False, 0)])
def test_what_cannot_be_removed_is_kept_while_a_process_of_it_lives(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, living: bool, code: int
) -> None:
    monkeypatch.setattr(
        container_work, "container_lives", lambda ids: living and list(ids) == ["12ab"]
    )
    DockerEngine().create(order(tmp_path))
    engine.write_text(f"#!/bin/sh\ntest $1 = rm && exit 1\n{GOOD}")
    assert container_work.main(["clean", "k7qm2"]) == code


def test_a_lease_is_kept_until_the_container_of_its_job_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = load_supervisor(monkeypatch)
    constants(monkeypatch, supervisor, CLEAN_SECONDS=0.1, CLEAN_PAUSE_SECONDS=0.0)
    tries = tmp_path / "tries"
    clean = f"echo x >> {tries}; case $(wc -l < {tries}) in 1) sleep 600;; 2) exit 125;; esac"
    task = {"job": str(tmp_path), "attempt": 1, "lease_file": "", "environment": dict(os.environ)}
    left, right = socket.socketpair()
    with left, right:
        one = supervisor.Supervision({**task, "clean": ["/bin/sh", "-c", clean]}, [], left)
        one.attempt = str(tmp_path)
        one.open_output()
        one.clean()
    assert tries.read_text() == "x\nx\nx\n"
    assert (tmp_path / "output.log").read_text() == supervisor.NOT_REMOVED
