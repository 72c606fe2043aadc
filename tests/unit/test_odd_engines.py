"""A container engine that hangs, floods or answers nonsense: told in words, nothing is left."""

import sys
import time
from pathlib import Path

import pytest

from andon.child_output import MOST_BYTES
from andon.core.executing.order import ContainerOptions, CreatedWork, WorkEnd, WorkOrder
from andon.errors import AndonError
from andon.executors.asking import ask_command
from andon.executors.engines import DockerExecutor

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


def test_one_that_answers_as_expected(engine: Path, tmp_path: Path) -> None:
    assert DockerExecutor().create(order(tmp_path)).id == "12ab"
    assert DockerExecutor().ended(WORK) == WorkEnd(3)


@pytest.mark.parametrize(
    "answer",
    ["true", "printf -- '--force\\n'", "head -c 2000 /dev/urandom", "printf 'a\\033[2J b\\n'",
     f"{sys.executable} -c 'print(chr(91) * 200000)'"],
)  # fmt: skip
def test_nonsense_is_told_and_nothing_is_left(engine: Path, tmp_path: Path, answer: str) -> None:
    engine.write_text(f"#!/bin/sh\n{answer}\n")
    with pytest.raises(AndonError, match="not understood"):
        DockerExecutor().create(order(tmp_path))
    with pytest.raises(AndonError, match="not understood"):
        DockerExecutor().ended(WORK)
    assert not list(tmp_path.glob("andon-home-*"))


def test_a_flood_is_not_kept(engine: Path) -> None:
    engine.write_text("#!/bin/sh\nexec yes\n")
    with pytest.raises(AndonError, match="printed more than"):
        DockerExecutor().ended(WORK)
    assert len(ask_command(["head", "-c", str(MOST_BYTES), "/dev/zero"], 20.0)[1])


def test_one_that_hangs_is_ended_with_its_children(engine: Path) -> None:
    engine.write_text("#!/bin/sh\nsleep 600 & wait\n")
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        ask_command([str(engine)], 0.2)
    assert time.monotonic() - began < 10.0
