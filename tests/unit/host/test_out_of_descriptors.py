"""Out of descriptors or processes: what could not be started leaves no descriptor open."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from andon.api import lease as leasing
from andon.errors import Unavailable
from andon.runs.line_pipe import LinePipe
from andon.sampling.spawning import Spawned
from tests.support.replaced import fails


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


def pipes_until(number: int) -> Callable[[], tuple[int, int]]:
    real, made = os.pipe, list[int]()

    def pipe() -> tuple[int, int]:
        if len(made) == number:
            raise OSError(24, "Too many open files")
        made.append(1)
        return real()

    return pipe


@pytest.mark.parametrize("number", [1, 2])
def test_a_reader_that_gets_too_few_pipes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pipe", pipes_until(number))
    before = open_descriptors()
    with pytest.raises(OSError, match="Too many open files"):
        Spawned("sim", "{}")
    assert open_descriptors() == before


def test_a_reader_that_gets_no_file_for_its_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, os, "memfd_create", OSError(24, "Too many open files"))
    before = open_descriptors()
    with pytest.raises(OSError, match="Too many open files"):
        Spawned("sim", "{}")
    assert open_descriptors() == before


def test_a_record_that_gets_one_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pipe", pipes_until(1))
    said: list[str] = []
    before = open_descriptors()
    LinePipe(tmp_path / "run.jsonl", said.append).close()
    assert open_descriptors() == before
    assert said == [f"the run is not recorded: {tmp_path}/run.jsonl: Too many open files"]


def test_a_lease_whose_holder_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, subprocess, "Popen", BlockingIOError(11, "Resource temporarily unavailable"))
    before = open_descriptors()
    with pytest.raises(Unavailable, match="a holder for the lease cannot be started"):
        leasing.lease(gpus=1).acquire()
    assert open_descriptors() == before
