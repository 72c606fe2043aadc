"""`andon logs`: where the last lines of an output begin."""

import os
import time
from pathlib import Path

import pytest

from andon.cli.commands.jobs.logs import MOST_LAST_BYTES, PIECE_BYTES, _start_of_last


def last(path: Path, lines: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return path.read_bytes()[_start_of_last(descriptor, lines) :]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("length", [0, 1, 7, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_the_last_lines_are_found(tmp_path: Path, length: int, end: bytes) -> None:
    path = tmp_path / "output.log"
    lines = [b"%d" % n + b"x" * length for n in range(12)]
    path.write_bytes(b"\n".join(lines) + end)
    for count in (1, 2, 11, 12, 13):
        assert last(path, count) == b"\n".join(lines[-count:]) + end
    assert last(path, 0) == path.read_bytes()
    path.write_bytes(b"")
    assert last(path, 3) == b""


def test_of_a_progress_bar_without_lines_a_part_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"\r 50 %" * 10_000_000)
    began = time.process_time()
    assert len(last(path, 15)) == MOST_LAST_BYTES
    assert time.process_time() - began < 2.0
