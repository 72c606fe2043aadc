"""`andon logs`: the last lines of an output."""

from pathlib import Path
from typing import NamedTuple, cast

import pytest

from andon.cli.commands.jobs.following import LOG_BYTES, JobOutput, last_lines
from andon.cli.commands.jobs.logs import _logs_of_many
from andon.cli.terminal import Choices
from andon.jobs.outputs import read_output
from andon.jobs.queue_desk import QueueDesk
from andon.model.job.desk import JobName, LogPart
from andon.model.job.facts import JobView


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


class Shown(NamedTuple):
    """What `andon logs` reads of a job in a list."""

    label: str
    number: str
    params: dict[str, str]


def test_of_a_progress_bar_without_lines_a_part_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"\r 50 %" * 10_000_000)
    output = JobOutput(OfFile(path), "1")
    assert output.begin(15)
    assert len(output.read()) == LOG_BYTES
    assert output.read() == ""


def test_the_parameters_of_a_job_do_not_move_the_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "output.log"
    path.write_text("done\n")
    found = [Shown(label, label, {"title": "\x1b[2J"}) for label in ("1", "2")]
    _logs_of_many(Choices(), OfFile(path), cast("list[JobView]", found), 15, follows=False)
    printed = capsys.readouterr().out
    assert "==> job 1 title=" in printed
    assert "\x1b" not in printed
