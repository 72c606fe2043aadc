"""`andon logs`: the last lines of an output."""

from pathlib import Path

import pytest

from andon.cli.commands.jobs.following import LOG_BYTES, JobOutput, last_lines
from andon.jobs.outputs import read_output
from andon.jobs.queue_desk import QueueDesk
from andon.model.job.desk import JobName, LogPart


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("length", [0, 1, 7, 1000])
def test_the_last_lines_are_found(length: int, end: str) -> None:
    lines = [f"{number}" + "x" * length for number in range(12)]
    text = "\n".join(lines) + end
    for count in (1, 2, 11, 12, 13):
        assert last_lines(text, count) == "\n".join(lines[-count:]) + end
    assert last_lines("", 3) == ""


class OfFile(QueueDesk):
    """Its one job has written a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        return read_output(self._path, start, most, ended=True)


def test_of_a_progress_bar_without_lines_a_part_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"\r 50 %" * 10_000_000)
    output = JobOutput(OfFile(path), "1")
    assert output.begin(15)
    assert len(output.read()) == LOG_BYTES
    assert output.read() == ""
