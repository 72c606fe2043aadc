"""`andon logs`: whole characters, and a job that is deleted meanwhile."""

import os
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest

from andon.cli.commands.jobs.following import JobOutput, follow
from andon.cli.terminal import Choices
from andon.jobs import queue_desk
from andon.jobs.folder import CANCELLED, CLAIM, JobsFolder
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.starting import lock_dispatcher
from andon.model.codec import to_json
from andon.model.job import facts
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import AttemptClaim, Holdup, JobNote
from andon.model.job.spec import JobSpec

AT = 1_790_000_000.0


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    """With one job, whose command has printed a bar of three bytes a character."""
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT)])
    attempt = folder.attempt(1, 1)
    attempt.mkdir()
    claim = to_json(AttemptClaim(5, 6, "boot", 7, 8, AT))
    (attempt / CLAIM).write_text(facts.dumps(claim))
    folder.output(1, 1).write_text("█" * 50)
    return Queue(folder)


def test_a_job_that_is_deleted_while_it_is_followed(
    queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    output = JobOutput(QueueDesk(lambda: queue), "1")
    queue.folder.remove(1)
    follow(Choices(), output)
    assert capsys.readouterr().out == ""


class Screen(StringIO):
    """A terminal's."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("live", [True, False])
def test_who_follows_a_job_that_waits_reads_why_until_it_starts(
    tmp_path: Path, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal in one place, elsewhere a line when the reason changes."""
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), time.time() - 75)])
    lock = lock_dispatcher(folder)  # as if one ran
    assert lock is not None
    acts_left: list[Callable[[], object]] = [
        lambda: None,
        lambda: folder.write_holdups({1: Holdup("bob has GPU 0", AT)}, time.time()),
        lambda: None,
        lambda: folder.note(1, CANCELLED, JobNote(1, AT, "ada")),
    ]
    monkeypatch.setattr(time, "sleep", lambda _: acts_left.pop(0)())
    monkeypatch.setattr(QueueDesk, "poll_seconds", 0.0)
    monkeypatch.setattr(queue_desk, "FRESH_SECONDS", 0.0)
    with redirect_stderr(Screen() if live else StringIO()) as screen:
        follow(Choices(), JobOutput(QueueDesk(lambda: Queue(folder)), "1"))
    os.close(lock)
    said = screen.getvalue()
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
