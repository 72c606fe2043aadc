"""Root's server and the readers of users: whatever they say or do not say, it costs only them."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from andon.access.roles import ALL_SEEING, BLIND, Identity, Role, Sight
from andon.errors import AndonError, Denied, Gone, Unavailable
from andon.host.accounts import UserAccount, become
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.views import JobListing
from andon.model.codec import to_json
from andon.model.job.desk import JobAct, JobName
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import LeaseList, WaitingRow
from andon.node.job_schemas import PageScope
from andon.node.seen.runs import SeenRuns
from andon.node.watched.jobs import ServedJobs
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.node.watched.users import read_user
from andon.web.bindings.live_server import Prepared
from andon.web.history_reader import HistoryReader
from andon.web.live.job_watch import JOBS, JobWatch
from andon.web.users import opening
from andon.web.users.opening import UsersFiles
from andon.web.users.processes import (
    BACK_OFF_SECONDS,
    MOST_ANSWER_BYTES,
    UserReader,
    UserReaders,
)
from tests.support.replaced import constants
from tests.support.rows import rows
from tests.support.run_records import BEGAN
from tests.support.seen_nodes import seen_node
from tests.support.user_parts import Told, Users, jobs_told

ALICE = UserAccount(1234, 1234, (1234,), "alice", "/home/alice")
SIGHT = Sight(user="alice", uid=1234)


def framed(value: object) -> bytes:
    body = json.dumps(value).encode()
    return b"%08d\n" % len(body) + body


MADE: "list[Process]" = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    for process in MADE:
        process.kill()
        process.stdout.close()
    MADE.clear()


class Process:
    """A reader that has said all that it will ever say."""

    def __init__(self, said: bytes, ended: bool = False) -> None:
        source, sink = os.pipe()
        os.write(sink, said)
        self.sink = None if ended else sink
        if ended:
            os.close(sink)
        self.stdout, self.asked, self.killed = os.fdopen(source, "rb"), list[bytes](), False
        MADE.append(self)
        self.stdin = SimpleNamespace(write=self.asked.append, close=lambda: None)

    def poll(self) -> int | None:
        return 1 if self.killed else None

    def wait(self) -> int:
        return 0

    def kill(self) -> None:
        self.killed = True
        if self.sink is not None:
            os.close(self.sink)
            self.sink = None


def reader(*processes: Process, clock: Callable[[], float] = lambda: 0.0) -> UserReader:
    given = iter(processes)
    start = cast("Any", lambda _account: next(given))
    return UserReader(ALICE, start, clock, answer_seconds=0.05, start_seconds=0.05)


def test_a_reader_answers_many_questions() -> None:
    process = Process(framed({"answer": {"n": 1}}) + framed({"answer": {"n": 2}}))
    alice = reader(process)
    assert [alice.ask("jobs", seen=""), alice.ask("job", job=7)] == [{"n": 1}, {"n": 2}]
    assert json.loads(process.asked[1]) == {"ask": "job", "job": 7}


@rows(
    ("said", "ended"),
    [
        (b"", False), (b"", True), (b"0000", True), (b"nonsense!", False), (b"99999999\n", False),
        (b"%08d\n" % (MOST_ANSWER_BYTES + 1), False), (b"00000002\n[]", False),
        (b"00000009\n{", True), (framed([]), False), (b"00000004\n\xff\xfe{}", False),
        (b"-0000001\n", False), (b"00100000\n" + b"[" * 60_000, True),
    ],
)  # fmt: skip
def test_one_that_hangs_ends_or_talks_nonsense_is_ended_and_left_alone(
    said: bytes, ended: bool
) -> None:
    process, now = Process(said, ended), [0.0]
    fine = Process(framed({"answer": {}}))
    alice = reader(process, fine, clock=lambda: now[0])
    with pytest.raises(Unavailable, match="the files of alice cannot be read"):
        alice.ask("jobs")
    assert process.killed
    with pytest.raises(Unavailable, match="cannot be read"):
        alice.ask("jobs")  # without a new process
    assert fine.asked == []
    now[0] += BACK_OFF_SECONDS
    assert alice.ask("jobs") == {}


@rows(
    ("error", "kind"),
    [
        ({"kind": "gone", "reason": "no such job", "hint": "x"}, Gone),
        ({"kind": "denied", "reason": "closed"}, Denied), ({"kind": "exit"}, Unavailable),
        ({"kind": "andonerror", "reason": []}, Unavailable), ("x", Unavailable), (7, Unavailable),
    ],
)  # fmt: skip
def test_what_a_reader_refuses_is_an_error_of_ours(error: object, kind: type[AndonError]) -> None:
    with pytest.raises(AndonError) as raised:
        reader(Process(framed({"error": error}))).ask("job", job=1)
    assert type(raised.value) is kind


def test_only_so_many_readers_run_at_once() -> None:
    made = list[Process]()

    def start(_account: UserAccount) -> Process:
        made.append(Process(framed({"answer": {}})))
        return made[-1]

    readers = UserReaders(cast("Any", start), most=2)
    for uid in (1, 2, 3):
        readers.of(UserAccount(uid, uid, (), f"user{uid}", "/h")).ask("jobs")
    assert [one.killed for one in made] == [True, False, False]
    readers.of(UserAccount(3, 3, (), "somebody else", "/h"))
    assert made[2].killed, "the uid belongs to another person now"
    readers.close()
    assert made[1].killed


def test_root_is_never_another_user() -> None:
    with pytest.raises(PermissionError):
        become(UserAccount(0, 0, (), "root", "/root"))


# What a server makes of it.

VIEW = JobView(
    1, "1", "sweep", JobState.WAITING, "python a.py", "/home/alice", "mallory", BEGAN, "1"
)


class OwnJobs(QueueDesk):
    """The server's own user has one job."""

    def listing(self, everyone: bool = False) -> JobListing:
        return JobListing((replace(VIEW, user="root"),))

    def view(self, job: JobName) -> JobView:
        return self.listing().views[0]


def server_jobs(users: Users | None) -> ServedJobs:
    return ServedJobs(OwnJobs(user="root"), lambda: "no", lambda _document: [], users)


def test_a_users_jobs_are_theirs_whatever_their_files_say() -> None:
    """A reader is its user's: it can name no other."""
    jobs = server_jobs(Users(alice=(1234, Told(jobs=jobs_told(VIEW)))))
    waiting = (
        WaitingRow(1, "alice", 2, None, BEGAN, 0, 3),
        WaitingRow(2, "bob", 1, None, BEGAN, 0),
    )
    book = LeaseList(BEGAN, waiting=waiting)
    page, everyone, blind = (
        seen_node(sight, jobs=jobs, book=book).jobs.page() for sight in (SIGHT, ALL_SEEING, BLIND)
    )
    assert [(one.user, one.name) for one in page.jobs] == [("alice", "sweep")]
    assert (page.user, page.scope, page.whole) == ("alice", PageScope.OWN, True)
    assert {one.user for one in everyone.jobs} == {"alice", "root"}
    assert everyone.scope is PageScope.EVERYONE
    assert [(one.user, one.name) for one in blind.jobs] == [("root", "hidden")]
    for one in (page, everyone, blind):
        assert [(place.user, place.gpus, place.jobs_behind) for place in one.queue] == [
            ("alice", 2, 3), ("bob", 1, None),
        ]  # fmt: skip


def test_a_user_without_files_here_and_a_server_of_another_user_show_the_servers_own() -> None:
    for users in (None, Users()):
        page = seen_node(SIGHT, jobs=server_jobs(users)).jobs.page()
        assert [(one.user, one.name) for one in page.jobs] == [("root", "hidden")]
        assert page.scope is PageScope.SERVER


def test_one_user_who_cannot_be_read_costs_root_only_that_user() -> None:
    hung = Told(jobs=Unavailable("the files of bob cannot be read: hung"))
    jobs = server_jobs(Users(alice=(1, Told(jobs=jobs_told(VIEW))), bob=(2, hung)))
    page = seen_node(ALL_SEEING, jobs=jobs).jobs.page()
    assert {one.user for one in page.jobs} == {"alice", "root"}
    assert page.note == "the files of bob cannot be read: hung"
    with pytest.raises(Unavailable):
        seen_node(Sight(user="bob", uid=2), jobs=jobs).jobs.page()


@rows(
    "views",
    [
        None, 7, "x", [7], [{}], [{"number": -1}], [{**to_json(VIEW), "number": 2**70}],
        [{**to_json(VIEW), "name": "x" * 20_000}], [to_json(VIEW)] * 2001,
        [{**to_json(VIEW), "state": "winning"}], [{**to_json(VIEW), "started": 1e99}],
    ],
)  # fmt: skip
def test_an_answer_that_is_no_list_of_jobs_is_refused(views: object) -> None:
    told = Told(jobs={"seen": "1", "views": views, "paused": False})
    with pytest.raises(Unavailable, match="the files of alice cannot be read"):
        read_user("alice", told.ask).jobs.listing()


def test_an_unchanged_list_is_not_sent_again() -> None:
    now, told = [0.0], Told(jobs=jobs_told(VIEW))
    jobs = read_user("alice", told.ask, lambda: now[0]).jobs
    first = jobs.listing()
    assert jobs.listing() is first
    assert len(told.asked) == 1, "within a moment nobody is asked again"
    now[0], told.answers["jobs"] = 9.0, {"seen": "1"}
    assert jobs.listing() is first
    now[0], told.answers["jobs"] = 18.0, jobs_told(seen="2")
    assert jobs.listing().views == ()
    assert [given["seen"] for _, given in told.asked] == ["", "1", "1"]


def test_who_asks_while_a_reader_hangs_takes_no_thread_from_other_users() -> None:
    now, hangs, goes_on = [0.0], threading.Event(), threading.Event()

    def hang(seen: str) -> dict[str, object]:
        if seen:
            hangs.set()
            assert goes_on.wait(60)
        return jobs_told(VIEW, seen=f"{seen}1")

    jobs = read_user("alice", Told(jobs=hang, act={"job": 1, "outcome": "x"}).ask, lambda: now[0])
    first = jobs.jobs.listing()
    now[0] = 9.0
    with ThreadPoolExecutor(3) as pool:
        stuck = pool.submit(jobs.jobs.listing)
        assert hangs.wait(60)
        assert pool.submit(jobs.jobs.listing).result(60) is first
        pool.submit(jobs.jobs.act, JobAct.CANCEL, [1]).result(60)
        changed = pool.submit(jobs.jobs.listing)  # waits: the list is older than the change
        goes_on.set()
        assert changed.result(60) is not stuck.result(60)


@rows(
    ("who", "user", "refused"),
    [
        (Identity(Role.USER, 1234, "alice"), "", None),
        (Identity(Role.USER, 1234, "alice"), "alice", None),
        (Identity(Role.USER, 1235, "bob"), "alice", Denied),
        (Identity(Role.OWNER, 0, "root"), "alice", Denied),
        (Identity(Role.OWNER, 0, "root", by_token=True), "alice", Denied),
        (Identity(Role.OWNER, 0, "root"), "dave", Gone),
    ],
)  # fmt: skip
def test_a_server_changes_a_users_jobs_only_for_that_user(
    who: Identity, user: str, refused: type[AndonError] | None
) -> None:
    told = Told(act={"job": 1, "outcome": "cancelled", "note": None})
    jobs = server_jobs(Users(alice=(1234, told), bob=(1235, Told())))
    desk = seen_node(who, jobs=jobs).jobs.of(user)
    if refused is None:
        (outcome,) = desk.act(JobAct.CANCEL, [1])
        assert (outcome.text, outcome.error) == ("cancelled", None)
        assert told.asked == [("act", {"job": 1, "act": "cancel"})]
    else:
        with pytest.raises(refused):
            raise desk.act(JobAct.CANCEL, [1])[0].error or AssertionError("it is done")
        assert told.asked == []


def test_root_opens_no_file_that_a_users_reader_names() -> None:
    row = {
        "id": "kqzvmtra", "name": "train", "kind": "command", "state": "succeeded", "node": "n",
        "began": BEGAN, "path": "/etc/shadow", "user": "alice",
    }  # fmt: skip
    told = Told(runs={"seen": "1", "rows": [row]}, record={"size": 1, "name": "a.jsonl"})
    runs = ServedRuns(FoundRuns, "", users=Users(alice=(1234, told)))
    for sight in (SIGHT, ALL_SEEING):
        seen = SeenRuns(runs, sight)
        with pytest.raises(Denied, match="is a file of alice"):
            seen.record(seen.resolve("kqzvmtra"))


def test_a_users_runs_come_from_their_reader_alone() -> None:
    row = {
        "id": "kqzvmtra", "name": "train", "kind": "command", "state": "succeeded", "node": "n",
        "began": BEGAN, "path": "/home/alice/a.jsonl", "user": "root",
    }  # fmt: skip
    told = Told(runs={"seen": "1", "rows": [row]}, run=Gone("there is no run"))
    runs = ServedRuns(lambda: FoundRuns(), "of root", users=Users(alice=(1234, told)))
    ((found, files),) = SeenRuns(runs, SIGHT).visible().others.values()
    assert found.user == "alice"
    assert files is not None
    assert SeenRuns(runs, BLIND).visible().states() == {}
    assert SeenRuns(runs, Sight(user="bob", uid=1235)).visible().states() == {}
    assert set(SeenRuns(runs, ALL_SEEING).visible().states()) == {"kqzvmtra"}
    with pytest.raises(Gone):
        SeenRuns(runs, SIGHT).details("kqzvmtra")
    assert told.asked[-1] == ("run", {"run": "kqzvmtra"})


def test_only_accounts_that_signed_in_or_are_in_the_book_are_looked_at() -> None:
    accounts = {one.uid: one for one in (ALICE, UserAccount(9, 9, (), "bob", "/h"))}

    def account(who: int | str) -> UserAccount | None:
        return next((one for one in accounts.values() if who in (one.uid, one.name)), None)

    waiting = (WaitingRow(1, "bob", 1, None, BEGAN, 0), WaitingRow(2, "4711", 1, None, BEGAN, 0))
    book = LeaseList(BEGAN, waiting=waiting)
    signed_in = set[int]()
    users = UsersFiles(UserReaders(), lambda: signed_in, lambda: book, account)
    assert [one.user for one in users.known()] == ["bob"]
    assert users.named("alice") is None
    signed_in |= {1234, 0, 4711}
    assert [one.user for one in users.known()] == ["bob", "alice"]
    assert users.named("alice") is users.of(1234)
    assert users.of(0) is None
    assert users.of(4711) is None, "no such account"


def test_only_so_many_users_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    constants(monkeypatch, opening, MOST_CACHED=2)
    users = UsersFiles(
        UserReaders(), tuple, lambda: None, lambda uid: UserAccount(int(uid), 9, (), f"u{uid}", "/")
    )
    first, second = users.of(4001), users.of(4002)
    assert users.of(4001) is first
    users.of(4003)
    assert users.of(4001) is first, "who was asked for last is kept"
    assert users.of(4002) is not second


def test_live_events_of_jobs_are_for_those_who_see_them() -> None:
    told = Told(jobs=jobs_told(VIEW))
    now = [0.0]
    users = Users(lambda: now[0], alice=(1234, told), bob=(1235, Told(jobs=jobs_told())))
    watch, jobs = JobWatch(HistoryReader()), server_jobs(users)
    heard: dict[Sight, list[str]] = {}

    async def emit(event: str, text: Prepared, what: str, sight: Sight) -> None:
        assert (event, what) == ("job", "jobs")
        heard.setdefault(sight, []).append(text)

    bob = Sight(user="bob", uid=1235)

    nodes = [seen_node(sight, jobs=jobs) for sight in (SIGHT, bob, BLIND, ALL_SEEING)]

    async def rounds() -> None:
        await watch.publish({JOBS: nodes}, emit)
        now[0] = 9.0
        told.answers["jobs"] = jobs_told(replace(VIEW, state=JobState.RUNNING), seen="2")
        await watch.publish({JOBS: nodes}, emit)
        now[0] = 18.0
        told.answers["jobs"] = jobs_told(seen="3")
        await watch.publish({JOBS: nodes}, emit)

    asyncio.run(rounds())
    assert set(heard) == {SIGHT, ALL_SEEING}
    changed, gone = (json.loads(str(text)) for text in heard[SIGHT])
    assert [(one["user"], one["name"]) for one in changed["jobs"]] == [("alice", "sweep")]
    assert gone["gone"] == [{"user": "alice", "label": "1"}]
