"""Out of descriptors or processes: what could not be started leaves no descriptor open."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import pytest

from andon.api import lease as leasing
from andon.errors import Unavailable
from andon.runs.line_pipe import LinePipe
from andon.sampling.spawning import Spawned
from tests.support.replaced import fails


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


@contextmanager
def descriptors_left(number: int) -> Iterator[None]:
    """This process can open so many more, whatever it has open."""
    used = {int(path.name) for path in open_descriptors() if path.exists()}
    free = (one for one in count() if one not in used)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(islice(free, number, None)), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("left", range(7))
def test_a_reader_that_gets_too_few_pipes_or_no_file_for_its_errors(left: int) -> None:
    before = open_descriptors()
    with descriptors_left(left), pytest.raises(OSError, match="Too many open files"):
        Spawned("sim", "{}")
    assert open_descriptors() == before


def test_a_record_that_gets_one_pipe(tmp_path: Path) -> None:
    said: list[str] = []
    before = open_descriptors()
    with descriptors_left(2):
        LinePipe(tmp_path / "run.jsonl", said.append).close()
    assert open_descriptors() == before
    assert said == [f"the run is not recorded: {tmp_path}/run.jsonl: Too many open files"]


@pytest.mark.process
def test_a_program_that_closes_all_its_files_gets_no_line_of_its_record(tmp_path: Path) -> None:
    said: list[str] = []
    before = open_descriptors()
    record = LinePipe(tmp_path / "run.jsonl", said.append)
    pipes = sorted(int(path.name) for path in open_descriptors() - before if path.exists())
    own = (tmp_path / "own").open("w+b")
    for number in pipes:
        os.dup2(own.fileno(), number)  # what the program opens next has these numbers
    record.put("a line\n")
    record.close()
    assert (tmp_path / "own").read_bytes() == b""
    for number in pipes:
        os.close(number)
    record.put("a line\n")
    own.close()
    assert said == [
        f"the run is not recorded: {tmp_path}/run.jsonl: the program has closed its files"
    ]


def test_a_lease_whose_holder_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, subprocess, "Popen", BlockingIOError(11, "Resource temporarily unavailable"))
    before = open_descriptors()
    with pytest.raises(Unavailable, match="a holder for the lease cannot be started"):
        leasing.lease(gpus=1).acquire()
    assert open_descriptors() == before
