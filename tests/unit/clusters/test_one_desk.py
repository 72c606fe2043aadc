"""What jobs of Slurm and Ray say and cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.commands.jobs import following
from andon.cli.terminal import Choices
from andon.clusters.slurm import SlurmCluster
from andon.errors import Invalid, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import Able, LogPart, Submission
from andon.model.job.facts import JobState
from tests.support.played_slurm import Played, opened, row, submission
from tests.support.replaced import constants

REFUSED = (
    "sbatch: error: Batch job submission failed: Requested node configuration is not available"
)


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def slurm(played: Played, tmp_path: Path) -> SlurmCluster:
    return opened(played, tmp_path / "logs")


def test_a_refused_submission_is_no_job(slurm: SlurmCluster, played: Played) -> None:
    played.answers["sbatch"] = (1, "", REFUSED)
    with pytest.raises(Invalid):
        slurm.submit(submission())
    # Slurm itself lists it for some minutes.
    listed = row(State="FAILED", NodeList="", Reason="BadConstraints")
    played.answers["squeue"] = (0, listed, "")
    assert slurm.jobs(0.0) == []


def test_a_submission_runs_one_command_of_slurm(slurm: SlurmCluster, played: Played) -> None:
    slurm.submit(submission())
    assert played.asked == ["sbatch"]


def test_srun_waits_for_no_other_command_of_slurm(slurm: SlurmCluster, played: Played) -> None:
    slurm.foreground(submission())
    assert played.asked == []


class Away:
    """A cluster that does not answer for a while, and then has the job's whole output."""

    able, instead, title, identity = frozenset[Able](), dict[Able, str](), "Ray", ""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        self.calls -= 1
        if self.calls >= 0:
            raise Unavailable("the head does not answer")
        return LogPart(0, 0, "", ended=True)

    def jobs(self, since: float, everyone: bool = False) -> list[ClusterJob]:
        raise Unavailable("the head does not answer")


def test_who_follows_a_job_learns_that_its_cluster_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    constants(monkeypatch, following, LOG_POLL_SECONDS=0.0)
    away = Away(3)
    ray = ClusterDesk("ray", 5.0, lambda: away)  # type: ignore[arg-type,return-value]
    following.follow(Choices(), following.JobOutput(ray, "ray:7"))
    assert "the head does not answer" in capsys.readouterr().err


class Back(Away):
    """A cluster whose job ended while it was away."""

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        super().log(job, start, most_bytes)
        return LogPart(0, 5, "done\n" * (not start), ended=True)

    def jobs(self, since: float, everyone: bool = False) -> list[ClusterJob]:
        return [ClusterJob("7", "train", JobState.SUCCEEDED, "ada", 1.0, ended=2.0)]

    notes = None


def test_what_a_job_printed_while_its_host_was_away_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    constants(monkeypatch, following, LOG_POLL_SECONDS=0.0)
    back = Back(1)
    ray = ClusterDesk("ray", 5.0, lambda: back)  # type: ignore[arg-type,return-value]
    following.follow(Choices(), following.JobOutput(ray, "ray:7"))
    assert capsys.readouterr().out == "done\n"


class Interrupted(Away):
    """A host that went away before its job was interrupted."""

    def submit(self, one: Submission, again: bool = False) -> str:
        return "7"

    def cancel(self, ids: Sequence[str]) -> None:
        raise Unavailable("no answer")


def test_a_job_that_could_not_be_cancelled_may_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = ClusterDesk("ray", 5.0, lambda: Interrupted(0))  # type: ignore[arg-type,return-value]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "log", interrupt)
    with pytest.raises(KeyboardInterrupt):
        following.run_at_terminal(Choices(), host, replace(submission(), options=(), indices=()))
    assert "job ray:7 may still run: ray: no answer" in capsys.readouterr().err
