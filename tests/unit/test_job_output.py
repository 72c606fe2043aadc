"""`andon logs`: whole characters, and a job that is deleted meanwhile."""

from pathlib import Path

import pytest

from andon.app.jobs import Queue
from andon.cli.commands.jobs import logs
from andon.engine.jobs.folder import CLAIM, JobsFolder
from andon.model.job import AttemptClaim, JobSpec
from andon.model.job import wire as job_wire
from andon.model.work import DeviceRequest

AT = 1_790_000_000.0


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    """With one job, whose command has printed a bar of three bytes a character."""
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT)])
    attempt = folder.attempt(1, 1)
    attempt.mkdir()
    claim = job_wire.claim_to_json(AttemptClaim(5, 6, "boot", 7, 8, AT))
    (attempt / CLAIM).write_text(job_wire.dumps(claim))
    folder.output(1, 1).write_text("█" * 50)
    return Queue(folder)


def test_a_piece_that_ends_inside_a_character(
    queue: Queue, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PIECE_BYTES", 10)
    output = logs._Output(queue, 1, None)
    assert not output.find_last(0)
    output.show_new()
    assert capsys.readouterr().out == "█" * 50


def test_a_job_that_is_deleted_while_it_is_followed(
    queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    output = logs._Output(queue, 1, None)
    queue.folder.remove(1)
    output.follow()
    assert capsys.readouterr().out == ""
