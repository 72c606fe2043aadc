"""What is said and done once a job has ended: it is not resumed, and a cancelled call returns."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.api.submit import SubmittedJob
from andon.cli.main import run
from andon.errors import AndonError, Conflict
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.starting import lock_dispatcher
from andon.model.job.desk import JobAct
from tests.support.desk_contract import job


@pytest.fixture
def queue(state_folder: Path) -> Iterator[QueueDesk]:
    lock = lock_dispatcher(open_jobs_folder())  # as if one ran
    assert lock is not None
    yield QueueDesk()
    os.close(lock)


def test_an_ended_job_is_not_resumed(queue: QueueDesk) -> None:
    (made,) = queue.submit([job()])
    queue.act(JobAct.CANCEL, [made.label])
    (outcome,) = queue.act(JobAct.RESUME, [made.label])
    assert isinstance(outcome.error, Conflict)
    assert outcome.error.reason == f"job {made.label} cannot be resumed: it has ended"


def test_the_result_of_a_cancelled_call_is_not_waited_for(queue: QueueDesk, tmp_path: Path) -> None:
    (made,) = queue.submit([job()])
    call = SubmittedJob(made.label, tmp_path / "call", queue)
    call.cancel()
    began = time.monotonic()
    with pytest.raises(AndonError, match=f"job {made.label} cancelled"):
        call.result()
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("words", [[], ["--simulate", "2"]])
def test_nothing_is_queued_while_the_settings_named_are_missing(
    queue: QueueDesk,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing would start it: with --wait it was waited for, without an end."""
    monkeypatch.setenv("ANDON_CONFIG", str(tmp_path / "missing.toml"))
    assert run(["submit", *words, "--", "true"]) == 2
    assert "missing.toml cannot be read: No such file or directory" in capsys.readouterr().err
    assert queue.listing().views == ()
