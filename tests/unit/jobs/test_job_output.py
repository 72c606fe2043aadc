"""`andon logs`: whole characters, and a job that is deleted meanwhile."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from andon.cli.commands.jobs import logs
from andon.cli.terminal import Choices
from andon.jobs.folder import CANCELLED, CLAIM, JobsFolder
from andon.jobs.queue import Queue
from andon.model.job import AttemptClaim, Holdup, JobNote, JobSpec, facts
from andon.model.lease import DeviceRequest
from tests.support.replaced import answers, constants

AT = 1_790_000_000.0


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    """With one job, whose command has printed a bar of three bytes a character."""
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT)])
    attempt = folder.attempt(1, 1)
    attempt.mkdir()
    claim = facts.claim_to_json(AttemptClaim(5, 6, "boot", 7, 8, AT))
    (attempt / CLAIM).write_text(facts.dumps(claim))
    folder.output(1, 1).write_text("█" * 50)
    return Queue(folder)


def test_a_piece_that_ends_inside_a_character(
    queue: Queue, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, logs, PIECE_BYTES=10)
    output = logs._Output(queue, 1, None)
    assert not output.find_last(0)
    output.show_new()
    assert capsys.readouterr().out == "█" * 50


def test_a_job_that_is_deleted_while_it_is_followed(
    queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    output = logs._Output(queue, 1, None)
    queue.folder.remove(1)
    output.follow(Choices())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("live", [True, False])
def test_who_follows_a_job_that_waits_reads_why_until_it_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    live: bool,
) -> None:
    """On a terminal in one place, elsewhere a line when the reason changes."""
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), time.time() - 75)])
    monkeypatch.setattr("sys.stderr.isatty", lambda: live)
    answers(monkeypatch, "andon.jobs.queue", "start_dispatcher", None)
    acts_left: list[Callable[[], object]] = [
        lambda: None,
        lambda: folder.write_holdups({1: Holdup("bob has GPU 0", AT)}, time.time()),
        lambda: None,
        lambda: folder.note(1, CANCELLED, JobNote(1, AT, "ada")),
    ]
    monkeypatch.setattr(
        "andon.cli.commands.jobs.logs.time.sleep", lambda seconds: acts_left.pop(0)()
    )
    logs._Output(Queue(folder), 1, None).follow(Choices())
    said = capsys.readouterr().err
    if live:
        assert said.split("\r\x1b[K")[1:] == [
            *(["job 1 waiting 1:15 · no. 1: just queued"] * 2),
            *(["job 1 waiting 1:15 · no. 1: bob has GPU 0"] * 2),
            "",
        ]
    else:
        assert said.splitlines() == [
            "andon: job 1 waiting 1:15 · no. 1: just queued",
            "andon: job 1 waiting 1:15 · no. 1: bob has GPU 0",
        ]
