"""Clusters are asked with limits, their answers are kept, and submissions leave notes."""

import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.commands.jobs.following import JobOutput, follow_many, report_why_it_waits
from andon.cli.terminal import Choices
from andon.errors import Gone, Invalid, Unavailable
from andon.failures.retrying import Clocks
from andon.jobs.clusters import answers, asking, notes
from andon.jobs.clusters.desk import ClusterDesk, list_together, listing_of
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.folder import CLUSTER_PAGES, SUBMISSIONS, jobs_path, open_jobs_folder
from andon.jobs.rules.cluster_views import ClusterPage
from andon.model.job.cluster import ClusterJob, NotSent
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec
from andon.settings.clusters import ClusterSettings
from andon.testing.fake_cluster import FakeCluster, PlayedNode
from tests.support.homes import own_folders
from tests.support.old_notes import age_notes
from tests.support.replaced import constants

AT = 1_763_250_000.0


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    constants(monkeypatch, asking, GRACE_SECONDS=0.0)
    open_jobs_folder()
    return FakeCluster.make(tmp_path / "lab", PlayedNode("n1", 1), now=time.time())


def opened(fake: FakeCluster, name: str = "lab", seconds: float = 30.0) -> ClusterDesk:
    return ClusterDesk(name, seconds, lambda: fake)


def asked(desk: ClusterDesk) -> ClusterPage:
    """Returns what is known of its jobs after they were listed."""
    desk.listing()
    return answers.cached_page(desk.name)


def submission(script: str = "sleep 10", label: str = "a1", gpus: int = 1) -> Submission:
    request = DeviceRequest(gpus, gpus)
    job = JobSpec(0, "train", ("sh", "-c", script), "/", request, time.time(), user="ada",
                  environment={"A": "1"})  # fmt: skip
    return Submission(label, job, options=("--fast",))


class Hanging(FakeCluster):
    """Breaks its promise: it answers when the test lets it."""

    identity = ""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def jobs(self, since: float, everyone: bool = False) -> list[object]:  # type: ignore[override]
        self.asked.set()
        self.go.wait(60)
        return []


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.go.set()


@pytest.mark.slow
def test_a_cluster_that_hangs_delays_no_other(fake: FakeCluster, hanging: Hanging) -> None:
    fake.submit(submission())
    found = list_together([opened(hanging, "slow", 1.0), opened(fake, "lab", 1.0)])
    slow, quick = found.clusters
    assert (slow.name, slow.trouble, slow.at) == ("slow", "no answer within 1 s", None)
    assert [job.state for job in found.views] == [JobState.RUNNING]
    assert quick.trouble is None


def test_an_error_of_an_adapter_is_said_in_one_sentence() -> None:
    def fails() -> None:
        raise KeyError("x")

    with pytest.raises(Unavailable, match="KeyError: 'x'"):
        asking.within(10, "lab", fails)
    with pytest.raises(Gone):
        asking.within(10, "lab", lambda: (_ for _ in ()).throw(Gone("no")))


def test_an_answer_is_used_by_whoever_asks_next(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.submit(submission())
    first = asked(opened(fake))
    fake.break_(away="connection refused")
    assert asked(opened(fake)) == first  # it was not asked
    answers.forget_answer("lab")
    away = asked(opened(fake))
    assert (away.jobs, away.at, away.trouble) == (first.jobs, first.at, "connection refused")
    assert asked(opened(fake)) == away
    (line,) = listing_of([away], away.tried).notes
    assert line.startswith("lab: no answer for")
    assert "(connection refused); its jobs are as of " in line


def test_a_job_with_impossible_values_hides_no_other(fake: FakeCluster) -> None:
    fake.submit(submission())
    (good,) = fake.jobs(0.0)
    bad = [replace(good, id="a b"), replace(good, name="\ud800"), replace(good, exit_code=2**99)]

    class Odd(FakeCluster):
        identity = ""

        def __init__(self) -> None: ...

        def jobs(self, since: float, everyone: bool = False) -> list[ClusterJob]:
            return [bad[0], good, *bad[1:]]

    page = asked(opened(Odd()))
    assert page.jobs == (good,)
    assert answers.cached_page("lab") == page
    (line,) = listing_of([page]).notes
    assert line.startswith("lab: not all its jobs are shown, because id is 'a b'")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema":"andon.cluster-page/1"}', "\0"])
def test_a_damaged_file_is_not_used(fake: FakeCluster, text: str) -> None:
    folder = jobs_path() / CLUSTER_PAGES
    folder.mkdir()
    (folder / "lab.json").write_text(text)
    assert answers.cached_page("lab").at is None
    found = asked(opened(fake))
    assert found.at is not None
    assert answers.cached_page("lab") == found


def test_a_note_that_cannot_be_written_is_no_submission(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(notes, "write_whole", full)
    with pytest.raises(NotSent) as refused:
        opened(fake).submit([submission()])
    assert "not known" not in refused.value.reason
    assert fake.jobs(0.0) == []


def test_a_submission_leaves_a_note_with_its_id(fake: FakeCluster) -> None:
    wanted = submission()
    assert notes.submit_once("lab", fake, wanted) == "4711"
    (note,) = notes.recent_notes(0.0)
    assert (note.cluster, note.id) == ("lab", "4711")
    assert (note.submission.label, note.submission.options) == ("a1", ("--fast",))
    assert note.submission.job.argv == wanted.job.argv
    assert dict(note.submission.job.environment) == {}
    notes.sweep_notes(time.time() + 10)
    assert notes.recent_notes(0.0) == []


def test_what_is_refused_leaves_no_note_and_what_is_not_answered_does(fake: FakeCluster) -> None:
    with pytest.raises(Invalid, match=r"no node has 9 GPUs"):
        notes.submit_once("lab", fake, submission(gpus=9))
    assert notes.recent_notes(0.0) == []
    fake.break_(away="connection refused")
    with pytest.raises(Unavailable, match="connection refused"):
        notes.submit_once("lab", fake, submission())
    fake.break_()
    (note,) = notes.recent_notes(0.0)
    assert note.id is None
    age_notes()
    (view,) = opened(fake).listing().views
    assert (view.state, view.reason) == (JobState.LOST, "it did not reach lab: submit it again")


def test_a_damaged_note_is_passed_over(fake: FakeCluster) -> None:
    notes.submit_once("lab", fake, submission())
    folder = jobs_path() / SUBMISSIONS
    (folder / "b.json").write_text('{"schema":"andon.submission/1"}')
    (folder / "c.json").write_text("no")
    assert [note.submission.label for note in notes.recent_notes(0.0)] == ["a1"]


def test_a_poller_keeps_what_it_knew_while_the_cluster_is_away(fake: FakeCluster) -> None:
    now = [1000.0]
    poller = ClusterPoller(opened(fake), clocks=Clocks(lambda: now[0], lambda: AT + now[0]))
    fake.submit(submission())
    poller.poll()
    good = poller.page()
    assert ([job.name for job in good.jobs], good.trouble) == (["train"], None)
    fake.break_(away="connection refused")
    now[0] += 10
    poller.poll()
    assert poller.page().trouble == "connection refused"
    assert (poller.page().jobs, poller.page().at) == (good.jobs, good.at)
    fake.break_()
    poller.poll()
    assert poller.page().trouble is None
    assert answers.cached_page("lab") == poller.page()


def test_a_poller_that_hangs_says_since_when_and_never_waits(
    fake: FakeCluster, hanging: Hanging
) -> None:
    now = [1000.0]
    clocks = Clocks(lambda: now[0], lambda: AT + now[0])
    poller = ClusterPoller(opened(hanging, "slow", 5.0), clocks=clocks)
    poller.start()
    assert hanging.asked.wait(60)
    assert poller.page().trouble is None
    now[0] += 40
    page = poller.page()
    assert (page.trouble, page.at) == ("it was asked 40 s ago", None)
    hanging.go.set()
    poller.close()


def test_root_asks_for_everyone_and_keeps_that_to_itself(fake: FakeCluster) -> None:
    fake.submit(submission())
    options = {"folder": str(fake._folder), "user": "somebody-else"}
    other = FakeCluster(ClusterSettings("lab", "fake", 10.0, options))
    assert other.jobs(0.0) == []
    poller = ClusterPoller(opened(other), everyone=True)
    poller.poll()
    assert len(poller.page().jobs) == 1
    assert len(opened(other).listing(everyone=True).views) == 1
    assert answers.cached_page("lab").at is None


def test_a_submission_that_was_not_sent_leaves_nothing(fake: FakeCluster) -> None:
    class Away(FakeCluster):
        identity = ""

        def __init__(self) -> None: ...

        def submit(self, submission: Submission, again: bool = False) -> str:
            raise NotSent("its controller does not answer")

    there = ClusterDesk("lab", 5.0, Away)
    with pytest.raises(NotSent) as caught:
        there.submit([submission()])
    assert caught.value.reason == "lab: its controller does not answer"
    assert notes.recent_notes(0.0) == []
    assert not answers.was_used("lab")
    assert not (jobs_path() / CLUSTER_PAGES).exists()
    fake.break_(away="connection refused")
    with pytest.raises(Unavailable, match="whether it took the job is not known"):
        opened(fake).submit([submission()])
    with pytest.raises(NotSent):
        there.submit([submission()])
    assert notes.recent_notes(0.0) != []  # what was sent before it may have been taken
    assert answers.was_used("lab")


def test_a_cluster_that_has_answered_was_used(fake: FakeCluster) -> None:
    assert not answers.was_used("lab")
    opened(fake).listing()
    assert answers.was_used("lab")


class Looks(threading.Event):
    """Time passes for the cluster at each look; the job's client has not ended."""

    def __init__(self, fake: FakeCluster) -> None:
        super().__init__()
        self._fake, self.count = fake, 0

    def wait(self, timeout: float | None = None) -> bool:
        self.count += 1
        self._fake.advance(0 if self.count < 4 else 20)
        assert self.count < 10
        return False


def test_a_job_at_this_terminal_says_once_why_it_waits_until_it_starts(
    fake: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.submit(submission(label="first"))
    job = fake.submit(submission(label="mine"))
    looks = Looks(fake)
    report_why_it_waits(Choices(), opened(fake), "mine", looks)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert said[0].startswith(f"andon: job lab:{job} waits: needs 1 GPU")
    assert looks.count == 4


def test_what_was_submitted_before_a_refusal_is_named(fake: FakeCluster) -> None:
    with pytest.raises(Invalid, match=r"no node has 9 GPUs.*; submitted before it: lab:4711"):
        opened(fake).submit([submission(), submission(label="a2", gpus=9)])


def test_jobs_of_several_are_followed_until_none_is_known(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose output is gone keeps nobody waiting."""
    desk = opened(fake)
    desk.poll_seconds = 0.0
    first, second = desk.submit([submission("echo a; sleep 1"), submission("sleep 9", "a2")])
    outputs = {one.label: JobOutput(desk, one.label) for one in (first, second)}
    fake.advance(30)
    fake.forget("4712")
    follow_many(outputs, lambda label: bool(outputs[label].read()))
    assert all(one.ended for one in outputs.values())


def test_the_desk_of_a_server_reads_nodes_as_others_do(fake: FakeCluster) -> None:
    desk = ClusterDesk("lab", 9.0, lambda: fake, lambda nodes: list(nodes)[:0])
    assert ClusterPoller(desk).read_nodes is desk.read_nodes


def test_elements_that_were_submitted_at_one_moment_are_listed_by_index(fake: FakeCluster) -> None:
    """Ray lists the newest first, and its elements have the time of their submission."""
    made = [
        ClusterJob(f"9_{index}", "a", JobState.RUNNING, "ada", AT, array="9", array_index=index)
        for index in (10, 4, 3)
    ]
    page = ClusterPage("lab").answered(made, None, AT)
    assert [one.array_index for one in listing_of([page], AT).views] == [3, 4, 10]
