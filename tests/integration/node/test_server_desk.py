"""The contract of desks over a real server, whose jobs were submitted on its machine."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from andon.errors import Denied, Gone, Invalid
from andon.jobs.desk import JobDesk
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.starting import lock_dispatcher
from andon.model.job.desk import Accepted, JobAct, JobName, Submission
from andon.node.remote.jobs import ServerDesk
from andon.node.server import connect
from tests.integration.conftest import Outcome
from tests.integration.serving import Served, andon, serving
from tests.support.desk_contract import DeskContract, job
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
PATIENCE = 90.0


class WithQueue(ServerDesk):
    """A server's desk; what it does not take is submitted on its machine."""

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        return QueueDesk().submit(jobs, dry)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """No dispatcher runs: jobs wait, and what is cancelled never ran."""
    with pytest.MonkeyPatch.context() as patch:
        state = tmp_path_factory.mktemp("served") / "state"
        patch.setenv("XDG_STATE_HOME", str(state))
        patch.setenv("ANDON_LEASE_DIR", str(tmp_path_factory.mktemp("x") / "book"))
        lock = lock_dispatcher(open_jobs_folder())  # as if one ran
        assert lock is not None
        with serving(state, "--no-history", simulate=1) as found:
            yield found
        os.close(lock)


class TestServer(DeskContract):
    one_node = 1

    @pytest.fixture
    def desk(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> JobDesk:
        monkeypatch.setenv("XDG_STATE_HOME", str(served.state))
        token = str(served.state / "andon" / "token")
        return WithQueue(connect(served.url, token, lambda _: None))


@pytest.fixture
def desk(served: Served, monkeypatch: pytest.MonkeyPatch) -> ServerDesk:
    monkeypatch.setenv("XDG_STATE_HOME", str(served.state))
    return ServerDesk(connect(served.url, str(served.state / "andon" / "token"), lambda _: None))


def test_a_server_takes_no_submission(desk: ServerDesk) -> None:
    with pytest.raises(Denied, match="submitted on the machine itself"):
        desk.submit([job()])


def test_jobs_are_named_as_on_the_machine(desk: ServerDesk) -> None:
    one, other = QueueDesk().submit([job(name="named", group="both"), job(name="b", group="both")])
    (array,) = QueueDesk().submit([job(indices=(3, 4))])
    three, four = f"{array.label}_3", f"{array.label}_4"
    meant: dict[JobName, list[str]] = {
        "named": [one.label], "both": [one.label, other.label], "@": [three, four], four: [four],
        array.label: [three, four], int(one.label): [one.label],
    }  # fmt: skip
    for word, labels in meant.items():
        assert [view.label for view in desk.find([word]).views] == labels, word
    assert desk.view(four).array_index == 4
    assert desk.reasons("named")
    with pytest.raises(Invalid, match="both is 2 jobs"):
        desk.view("both")
    assert [type(error) for error in desk.find(["nope", "lab:1"]).errors] == [Invalid, Gone]


def test_what_a_server_does_not_do_is_a_sentence(desk: ServerDesk) -> None:
    (made,) = QueueDesk().submit([job()])
    (outcome,) = desk.act(JobAct.REMOVE, [made.label])
    assert isinstance(outcome.error, Invalid)
    assert "deletes no jobs" in outcome.error.reason
    (outcome,) = desk.act(JobAct.REQUEUE, [made.label])
    assert outcome.error is not None
    assert outcome.error.reason.endswith(f"job {made.label} is not running: it is waiting")


# The commands, against a server whose jobs run.

LONG = 3000  # lines: more than a server shows at once


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        state = tmp_path_factory.mktemp("running") / "state"
        patch.setenv("XDG_STATE_HOME", str(state))
        patch.setenv("ANDON_LEASE_DIR", str(tmp_path_factory.mktemp("y") / "book"))
        patch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
        with serving(state, "--no-history", simulate=1) as found:
            script = f"seq -f '%040.0f' {LONG}; echo last; exit 3"
            submitted = ("submit", "--simulate", "1", "--wait", "--name", "long", "--")
            assert andon(state, *submitted, "sh", "-c", script).code == 3
            rest = ("submit", "--simulate", "1", "--name", "rest", "--")
            assert andon(state, *rest, "sh", "-c", "echo begun; sleep 600").code == 0
            yield found
            andon(state, "cancel", "rest", "long")


def asked(served: Served, tmp_path: Path, *words: str, token: str = "") -> Outcome:
    """A command that is typed where no jobs are."""
    given = token or served.token
    return andon(tmp_path / "elsewhere", *words, "--url", served.url, ANDON_TOKEN=given)


def test_the_whole_output_of_a_job_comes_from_a_server(running: Served, tmp_path: Path) -> None:
    found = asked(running, tmp_path, "logs", "long", "-n", "0")
    assert found.code == 0, found.err
    assert found.out == "".join(f"{n:040d}\n" for n in range(1, LONG + 1)) + "last\n"
    found = asked(running, tmp_path, "logs", "1", "-n", "2")
    assert found.out == f"{LONG:040d}\nlast\n"
    assert asked(running, tmp_path, "logs", "long", "-f", "-n", "1").out == "last\n"


def test_a_user_of_its_machine_needs_no_token(running: Served, tmp_path: Path) -> None:
    found = andon(tmp_path / "elsewhere", "logs", "long", "-n", "1", "--url", running.url)
    assert (found.code, found.out) == (0, "last\n"), found.err


def test_one_job_of_a_server_is_shown_and_waited_for(running: Served, tmp_path: Path) -> None:
    shown = asked(running, tmp_path, "jobs", "show", "long", "--json")
    assert (shown.code, json.loads(shown.out)["jobs"][0]["exit_code"]) == (0, 3), shown.err
    assert asked(running, tmp_path, "jobs", "wait", "long").code == 3
    wait_for(lambda: "running" in asked(running, tmp_path, "jobs", "show", "rest").out, PATIENCE)
    assert "ended in time" in asked(running, tmp_path, "jobs", "wait", "rest", "-t", "1s").err
    found = asked(running, tmp_path, "logs", "nope")
    assert (found.code, found.out) == (2, "")
    assert "'nope' is not a job" in found.err


def test_jobs_are_changed_with_the_rights_of_the_caller(running: Served, tmp_path: Path) -> None:
    for words in (("logs", "1"), ("cancel", "1"), ("jobs", "show", "1")):
        stranger = asked(
            running, tmp_path, *words, token="a wrong one, of forty characters or more"
        )
        assert (stranger.code, stranger.out) == (4, ""), (words, stranger.err)
        assert stranger.err.count("\n") <= 2
    wait_for(lambda: "running" in asked(running, tmp_path, "jobs", "show", "rest").out, PATIENCE)
    found = asked(running, tmp_path, "jobs", "retry", "long")
    assert (found.code, found.err) == (0, "andon: job 1 waits again\n")
    explained = ("why", "--job", "long")  # once the dispatcher has looked at it
    wait_for(lambda: "just queued" not in asked(running, tmp_path, *explained).out, PATIENCE)
    why = asked(running, tmp_path, *explained)
    assert (why.code, "GPU" in why.out, "no. 1 of your jobs" in why.out) == (0, True, True), why
    for act, said in (("hold", "is held"), ("resume", "waits again")):
        found = asked(running, tmp_path, "jobs", act, "1")
        assert (found.code, found.err) == (0, f"andon: job 1 {said}\n")
    assert asked(running, tmp_path, "jobs", "move", "1", "--first").code == 0
    assert asked(running, tmp_path, "jobs", "rm", "1").code == 2
    assert asked(running, tmp_path, "jobs", "pause").code == 2
    found = asked(running, tmp_path, "cancel", "rest", "1")
    assert found.code == 0
    assert "andon: job 2 cancelled\n" in found.err
    assert asked(running, tmp_path, "jobs", "wait", "2").code == 143
    again = asked(running, tmp_path, "jobs", "resume", "2")
    assert again.code == 6
    assert "job 2 cannot be resumed: it has ended" in again.err
