"""Jobs of clusters as they are shown, and when clusters are asked."""

import pytest
from msgspec.structs import replace

from andon.jobs.rules.cluster_views import (
    ClusterPage,
    cluster_views,
    ids_of,
    page_line,
)
from andon.jobs.rules.polling import is_fresh, wait_seconds
from andon.jobs.waiting import exit_code
from andon.model.job.cluster import ClusterJob, SubmissionNote
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec

AT = 1_763_250_000.0
JOB = ClusterJob(
    "4711", "train", JobState.FAILED, "ada", AT, gpus=2, where="n1 GPU 0, 1", reason="exit code 3",
    label="a1", started=AT + 10, ended=AT + 40, exit_code=3,
)  # fmt: skip
SPEC = JobSpec(
    0, "train", ("train", "--token", "s3cret"), "/work", DeviceRequest(2, 2), AT, user="ada",
    tags=("paper",), group="tune", params={"lr": 0.1, "api_key": "s3cret"},
)  # fmt: skip


def note(id_: str | None = None, label: str = "a1", at: float = AT) -> SubmissionNote:
    return SubmissionNote("lab", at, Submission(label, SPEC), id_)


def test_a_job_has_its_cluster_its_id_and_its_place() -> None:
    (view,) = cluster_views(ClusterPage("lab").answered([JOB], None, AT), [])
    assert (view.label, view.engine, view.engine_id) == ("lab:4711", "lab", "4711")
    assert (view.number, view.where, view.gpus) == (0, "n1 GPU 0, 1", "2")
    assert (view.state, view.exit_code, view.error) == (JobState.FAILED, 3, "exit code 3")
    assert (view.seconds, view.attempts) == (30.0, 1)


def test_what_the_cluster_does_not_know_comes_from_the_note_without_secrets() -> None:
    (view,) = cluster_views(ClusterPage("lab").answered([JOB], None, AT), [note("4711")])
    assert (view.folder, view.tags, view.group) == ("/work", ("paper",), "tune")
    assert view.params == {"lr": "0.1", "api_key": "…"}
    assert "train --token" in view.command
    assert "s3cret" not in repr(view)


@pytest.mark.parametrize(
    ("id_", "answered", "state", "words"),
    [
        (None, None, JobState.WAITING, "lab has not confirmed it yet"),
        (None, AT - 1, JobState.WAITING, "lab has not confirmed it yet"),
        (None, AT + 9, JobState.WAITING, "lab has not confirmed it yet"),
        (None, AT + 11, JobState.LOST, "it did not reach lab: submit it again"),
        ("4711", AT + 1, JobState.LOST, "lab no longer knows it: how it ended is not known"),
    ],
)
def test_a_job_that_the_cluster_does_not_list_is_shown_with_what_is_known(
    id_: str | None, answered: float | None, state: JobState, words: str
) -> None:
    page = ClusterPage("lab", AT, answered)
    (view,) = cluster_views(page, [note(id_)])
    assert (view.state, view.reason, view.label) == (state, words, f"lab:{id_ or 'a1'}")


def test_a_job_is_known_by_its_label_its_id_or_its_array() -> None:
    element = ClusterJob("9_1", "train", JobState.RUNNING, "ada", AT, array="9", array_index=1)
    page = ClusterPage("lab").answered([JOB, element], None, AT + 1)
    notes = [note(None), note("4711", "a2"), note("9", "a3")]
    assert [view.label for view in cluster_views(page, notes)] == ["lab:4711", "lab:9_1"]
    assert cluster_views(ClusterPage("other").answered([], None, AT + 1), notes) == []
    job, view = cluster_views(page, notes)
    assert (ids_of(view), ids_of(job)) == (["9_1", "9"], ["4711"])


def test_an_end_that_was_known_stays_as_it_was() -> None:
    """Also where the cluster has forgotten the job, or tells less of it."""
    known = replace(note("4711"), ends=(JOB,))
    less = replace(JOB, where="n1", gpus=1)
    for jobs in ([], [less]):
        (view,) = cluster_views(ClusterPage("lab").answered(jobs, None, AT + 90), [known])
        assert (view.state, view.where, view.gpus) == (JobState.FAILED, "n1 GPU 0, 1", "2")
    (view,) = cluster_views(ClusterPage("lab").failed("no address", AT + 90), [known])
    assert view.exit_code == 3
    asked = replace(note("4711"), ends=(replace(JOB, state=JobState.CANCELLED, ended=None),))
    (view,) = cluster_views(ClusterPage("lab").answered([JOB], None, AT + 90), [asked])
    assert view.state is JobState.FAILED, "it had ended before it was cancelled"
    (view,) = cluster_views(ClusterPage("lab").answered([], None, AT + 90), [asked])
    assert view.state is JobState.CANCELLED


@pytest.mark.parametrize(
    ("state", "code", "number", "shown"),
    [
        (JobState.CANCELLED, None, 15, (JobState.CANCELLED, None, None, 1)),
        (JobState.CANCELLED, 143, None, (JobState.CANCELLED, None, None, 1)),
        (JobState.CANCELLED, None, None, (JobState.CANCELLED, None, None, 1)),
        (JobState.FAILED, 143, None, (JobState.CANCELLED, None, None, 1)),
        (JobState.FAILED, None, 9, (JobState.CANCELLED, None, None, 1)),
        (JobState.FAILED, None, 11, (JobState.FAILED, None, 11, 139)),
        (JobState.FAILED, 3, None, (JobState.FAILED, 3, None, 3)),
        (JobState.SUCCEEDED, 0, None, (JobState.SUCCEEDED, 0, None, 0)),
    ],
)
def test_a_job_that_andon_cancelled_has_no_code_whatever_its_cluster_says(
    state: JobState, code: int | None, number: int | None, shown: tuple[object, ...]
) -> None:
    """Whether a cluster has the code of a cancelled job is a race."""
    ended = replace(JOB, state=state, exit_code=code, signal=number)
    asked = ClusterJob("4711", "train", JobState.CANCELLED, "ada", AT, label="a1")
    for ends in ((asked,), (asked, ended)):
        cancelled = replace(note("4711"), ends=ends)
        (view,) = cluster_views(ClusterPage("lab").answered([ended], None, AT), [cancelled])
        assert (view.state, view.exit_code, view.signal, exit_code(view)) == shown
    (view,) = cluster_views(ClusterPage("lab").answered([ended], None, AT), [note("4711")])
    assert (view.state, view.exit_code, view.signal) == (state, code, number)


def test_a_cluster_that_is_away_keeps_its_jobs_and_has_a_line() -> None:
    good = ClusterPage("lab").answered([JOB], None, AT)
    assert page_line(good, AT + 1, "12:03") is None
    away = good.failed("connection refused", AT + 20).failed("connection refused", AT + 40)
    assert (away.jobs, away.at, away.failing_since) == ((JOB,), AT, AT + 20)
    line = "lab: no answer for 40 s (connection refused); its jobs are as of 12:03"
    assert page_line(away, AT + 40, "12:03") == line
    never = ClusterPage("lab").failed("connection refused", AT)
    line = "lab: no answer for 5 s (connection refused); its jobs are not known"
    assert page_line(never, AT + 5, "") == line
    assert away.answered([], None, AT + 50).failing_since is None
    unasked = good.failed("connection refused", AT + 600)
    line = "lab: no answer for 5 s (connection refused); its jobs are as of 12:03"
    assert page_line(unasked, AT + 605, "12:03") == line
    line = "lab: connection refused; its jobs are as of 12:03"
    assert page_line(unasked, AT + 600, "12:03") == line


@pytest.mark.parametrize(
    ("took", "unwatched", "failures", "seconds"),
    [
        (0.1, 1, 0, 5),  # someone looks
        (0.1, 100, 0, 60),  # nobody does
        (2.0, 1, 0, 20),  # slow: left alone for ten times as long
        (30.0, 1, 0, 60),
        (0.1, 1, 1, 5),
        (0.1, 1, 3, 20),  # away: doubled
        (0.1, 1, 9, 60),
    ],
)
def test_how_long_a_cluster_is_left_alone(
    took: float, unwatched: float, failures: int, seconds: float
) -> None:
    assert wait_seconds(took, unwatched, failures) == seconds


def test_an_answer_is_fresh_for_five_seconds_and_not_from_the_future() -> None:
    assert is_fresh(AT, AT + 4.9)
    assert not is_fresh(AT, AT + 5)
    assert not is_fresh(AT + 10, AT)
