"""The order in line between users: turns, recent GPU hours, and that no one starves."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Invalid
from andon.leases.book import contents
from andon.leases.book.contents import claim_writing, read_usage, write_usage
from andon.leases.book.lease_book import Book
from andon.leases.rules.occupants import BookView
from andon.leases.rules.queue import (
    MOST_OF_DISPATCHER,
    Waiting,
    giving_way,
    in_front_of,
    in_front_of_newcomer,
    in_order,
    promised,
)
from andon.leases.rules.rows import usage_rows, waiting_rows
from andon.leases.rules.usage import (
    HALF_LIFE_SECONDS,
    LONGEST_DELAY_SECONDS,
    NO_USAGE,
    RecentUsage,
    counted,
    usage_from_json,
    usage_to_json,
)
from andon.leases.usage_meter import UsageMeter
from andon.model.codec import document
from andon.model.device import Snapshot
from andon.model.lease import Ticket
from andon.model.lease_wire import ticket_from_json
from andon.sampling.bus import Bus
from tests.support.replaced import answers
from tests.support.sharing_parts import capacities_of, claim, gpu, lease, owner, ticket
from tests.support.waiting import wait_for


def of(user: str, uid: int, name: str, since: float, **more: int) -> Ticket:
    made = ticket(name, since, priority=more.get("priority", 0))
    return Ticket(
        made.id, owner(user, uid), made.need, made.priority, since, jobs_behind=more.get("behind")
    )


def line(*tickets: Ticket, usage: RecentUsage = NO_USAGE, at: float = 1e4) -> str:
    return " ".join(t.id for t in in_order([Waiting(t, at) for t in tickets], at, usage))


A1, A2, A3 = (of("alice", 1, f"a{n}", float(n)) for n in (1, 2, 3))
B1, B2 = of("bob", 2, "b1", 10.0), of("bob", 2, "b2", 11.0)
C1 = of("carol", 3, "c1", 20.0)


def test_a_users_second_stands_behind_everyones_first() -> None:
    assert line(A1, A2, A3, B1, B2, C1) == "a1 b1 c1 a2 b2 a3"
    urgent = of("alice", 1, "u", 30.0, priority=5)
    assert line(A1, A2, B1, urgent) == "u a1 b1 a2", "turns count within a priority"


def test_those_ahead_are_those_before_in_line() -> None:
    ordered = in_order([Waiting(t, 50.0) for t in (A1, A2, B1, C1)], 50.0)
    assert [t.id for t in in_front_of(ordered, A2, 50.0)] == ["a1", "b1", "c1"]
    assert [t.id for t in in_front_of(ordered, B2, 50.0)] == ["a1", "b1", "c1", "a2"]
    assert [t.id for t in in_front_of_newcomer(ordered, 9, 0)] == ["a1", "b1", "c1"]
    assert [t.id for t in in_front_of_newcomer(ordered, 2, 0)] == ["a1", "b1", "c1", "a2"]
    assert in_front_of_newcomer(ordered, 9, 1) == []


def test_recent_use_counts_after_turns_and_waiting_outweighs_it() -> None:
    heavy = RecentUsage(0.0, {1: 100.0})
    assert line(A1, A2, B1, C1, usage=heavy) == "b1 c1 a1 a2"
    long_ago = of("alice", 1, "a0", 0.0)
    late = of("bob", 2, "late", LONGEST_DELAY_SECONDS + 1.0)
    assert line(long_ago, late, usage=heavy) == "a0 late"
    assert line(A2, B1, usage=RecentUsage(0.0, {2: 50.0})) == "a2 b1"


def test_at_most_four_tickets_of_a_dispatcher_are_in_line() -> None:
    many = [of("alice", 1, f"j{n}", float(n), behind=9 - n) for n in range(1, 8)]
    plain = of("alice", 1, "run", 9.0)
    found = line(*many, plain).split()
    assert found == ["j1", "j2", "j3", "j4", "run"]
    assert len([name for name in found if name.startswith("j")]) == MOST_OF_DISPATCHER
    ordered = in_order([Waiting(t, 50.0) for t in many], 50.0)
    assert len(in_front_of(ordered, many[6], 50.0)) == MOST_OF_DISPATCHER


def test_tickets_that_were_made_or_moved_in_one_tick_keep_their_order() -> None:
    """Their names are drawn: a job behind would be in front by chance."""
    made = [of("alice", 1, name, 5.0, behind=2 - n) for n, name in enumerate(("z", "m", "a"))]
    assert line(*made, B1) == "z b1 m a"
    moved = [replace(t, since=30.0, asked=5.0 + n) for n, t in enumerate((made[0], made[2]))]
    assert line(*moved, B1) == "b1 z a"
    alike = [replace(one, jobs_behind=0) for one in moved]
    assert line(*alike, B1) == "b1 z a"


USERS = st.integers(1, 4)
ARRIVALS = st.lists(st.tuples(USERS, st.floats(0, 50_000), st.integers(-2, 2)), max_size=25)


@given(ARRIVALS, st.dictionaries(USERS, st.floats(0, 1e6), max_size=4))
def test_no_one_is_passed_by_a_first_ticket_that_came_an_hour_later(
    arrivals: list[tuple[int, float, int]], hours: dict[int, float]
) -> None:
    tickets = [
        of(f"u{uid}", uid, f"t{n}", since, priority=priority)
        for n, (uid, since, priority) in enumerate(arrivals)
    ]
    ordered = in_order([Waiting(t, 6e4) for t in tickets], 6e4, RecentUsage(0.0, hours))
    assert sorted(t.id for t in ordered) == sorted(t.id for t in tickets)
    firsts: dict[tuple[int, int], Ticket] = {}
    for one in ordered:
        firsts.setdefault((one.owner.uid, one.priority), one)
    for one in firsts.values():
        ahead = in_front_of(ordered, one, 6e4, RecentUsage(0.0, hours))
        assert all(other.priority >= one.priority for other in ahead)
        equal = [other for other in ahead if other.priority == one.priority]
        assert all(other.since <= one.since + LONGEST_DELAY_SECONDS for other in equal)
        assert len({other.owner.uid for other in equal}) == len(equal), "one of each user"


@dataclass
class OneDevice:
    """A queue for one device, in which every step asks the pure modules alone.

    `wait` has no ticket: it looks, as a newcomer does, and changes nothing.
    """

    usage: RecentUsage
    line: list[Ticket] = field(default_factory=list)
    clock: float = 0.0

    def arrive(self, uid: int, kind: str) -> None:
        self.clock += 1
        if kind == "wait":
            assert len(in_front_of_newcomer(self.shown(), uid, 0)) <= len(self.line)
            return
        jobs = sum(one.owner.uid == uid and one.jobs_behind is not None for one in self.line)
        if kind == "submit" and jobs == MOST_OF_DISPATCHER:
            return  # it waits in its user's own queue
        behind = {"behind": 0} if kind == "submit" else {}
        self.line.append(of(f"u{uid}", uid, f"t{self.clock:03.0f}", self.clock, **behind))

    def shown(self) -> list[Ticket]:
        return in_order([Waiting(one, self.clock) for one in self.line], self.clock, self.usage)

    def grant(self) -> Ticket:
        """Everyone looks; the one who may take the device gets it, and its user gives way."""
        free, line = capacities_of([gpu(0)]), self.shown()
        able = [
            one
            for one in line
            if not promised(in_front_of(line, one, self.clock, self.usage), free).devices
        ]
        assert len(able) == 1
        self.clock += 1
        moved = {one.id for one in giving_way(line, able[0], ["GPU-0"])}
        self.line = [
            replace(one, since=self.clock, asked=one.asked or one.since, moved=True)
            if one.id in moved
            else one
            for one in self.line
            if one.id != able[0].id
        ]
        return able[0]


KINDS = st.sampled_from(["run", "submit", "wait"])


@given(
    st.lists(st.tuples(st.integers(0, 2), KINDS), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 2), KINDS), max_size=4),
    st.dictionaries(st.integers(0, 2), st.floats(0, 100), max_size=3),
)
def test_the_place_that_is_shown_is_the_order_in_which_requests_are_granted(
    first: list[tuple[int, str]], then: list[tuple[int, str]], hours: dict[int, float]
) -> None:
    machine = OneDevice(RecentUsage(0.0, hours))
    for uid, kind in first:
        machine.arrive(uid, kind)
    if machine.line:
        machine.grant()  # some have had their turn before the others come
    for uid, kind in then:
        machine.arrive(uid, kind)
    shown = [one.id for one in machine.shown()]
    assert [machine.grant().id for _ in shown] == shown


@given(st.lists(st.integers(0, 2), max_size=8), st.integers(0, 2))
def test_a_newcomer_sees_ahead_of_it_who_is_ahead_of_its_ticket(uids: list[int], uid: int) -> None:
    machine = OneDevice(NO_USAGE)
    for one in uids:
        machine.arrive(one, "run")
    ahead = in_front_of_newcomer(machine.shown(), uid, 0)
    machine.arrive(uid, "run")
    assert in_front_of(machine.shown(), machine.line[-1], machine.clock) == ahead


def test_only_who_took_what_others_wait_for_gives_way() -> None:
    """Tickets for devices 0 to 7 each; the granted one is alice's first."""
    line = in_order([Waiting(one, 50.0) for one in (A1, A2, A3, B1, C1)], 50.0)
    assert [one.id for one in giving_way(line, A1, ["GPU-0"])] == ["a2", "a3"]
    assert giving_way(line, A1, ["GPU-9"]) == [], "nobody else waits for that one"
    assert giving_way(line, A3, ["GPU-0"]) == [], "those ahead of it keep their place"
    alone = in_order([Waiting(one, 50.0) for one in (A1, A2)], 50.0)
    assert giving_way(alone, A1, ["GPU-0"]) == []


def test_hours_are_counted_once_a_device_and_halve_in_a_week() -> None:
    held = [claim(lease(0, 1)), claim(lease(1)), claim(lease(7, simulated=True)), claim(None)]
    uid = held[0].uid
    usage = counted(NO_USAGE, held, 0.0, 180.0)
    assert usage.hours == {uid: pytest.approx(0.1)}
    assert counted(usage, held, 0.0, 1e9).hours[uid] < 0.4, "a gap was not watched"
    later = RecentUsage(0.0, {uid: 8.0}).decayed(2 * HALF_LIFE_SECONDS)
    assert later.hours == {uid: pytest.approx(2.0)}
    assert later.decayed(0.0).hours == later.hours, "a clock that was set back"
    assert RecentUsage(0.0, {uid: 8.0}).decayed(40 * HALF_LIFE_SECONDS).hours == {}


def test_its_json_is_read_whole_or_not_at_all() -> None:
    usage = RecentUsage(5.0, {1000: 1.25, 7: 3.0})
    good = usage_to_json(usage)
    assert usage_from_json(good) == usage
    bad: list[dict[str, object]] = [
        {"schema": "x"},
        {"gpu_hours": [1]},
        {"gpu_hours": {"x": 1}},
        {"gpu_hours": {"-1": 1}},
        {"gpu_hours": {"1": -1}},
        {"gpu_hours": {"1": "2"}},
        {"gpu_hours": {"1": None}},
        {"at": None},
    ]
    for change in bad:
        with pytest.raises(Invalid):
            usage_from_json({**good, **change})


def test_only_its_rightful_owners_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = tmp_path
    write_usage(book, RecentUsage(1e10, {5: 2.0}))
    assert read_usage(book).hours == {5: 2.0}
    (book / "usage.json").chmod(0o666)
    assert read_usage(book) == NO_USAGE
    (book / "usage.json").chmod(0o644)
    if os.getuid() == 0:
        os.chown(book / "usage.json", 4242, -1)
        assert read_usage(book) == NO_USAGE, "a user's own word"
        os.chown(book / "usage.json", 0, -1)
    (book / "usage.json").write_text("{")
    assert read_usage(book) == NO_USAGE
    (book / "usage.json").unlink()
    (book / "elsewhere").write_text("{}")
    (book / "usage.json").symlink_to(book / "elsewhere")
    assert read_usage(book) == NO_USAGE
    answers(monkeypatch, contents, "may_write", False)
    assert claim_writing(book) is None


def test_one_of_two_servers_counts(tmp_path: Path) -> None:
    first = claim_writing(tmp_path)
    assert first is not None
    assert claim_writing(tmp_path) is None
    os.close(first)
    second = claim_writing(tmp_path)
    assert second is not None
    os.close(second)


def test_a_server_writes_what_it_counted_into_the_book(book: Book) -> None:
    looked: list[float] = []

    def boot_seconds() -> float:
        looked.append(0.0)
        return 3600.0 * len(looked)

    held = claim(lease(0))
    bus = Bus()
    session = bus.subscribe(0.1, watching=False, size=4)
    meter = UsageMeter(session, lambda: BookView(claims=(held,)), clock=boot_seconds)
    try:
        bus.publish(Snapshot("n", time.time()), 0.0)
        wait_for(lambda: looked)
        bus.publish(Snapshot("n", time.time()), 1.0)
        wait_for(lambda: book.usage().hours)
    finally:
        meter.close()
    hours = book.usage().hours[held.uid]
    assert hours == pytest.approx(5 / 60, rel=1e-3), "five minutes at most in one step"


def test_what_is_shown() -> None:
    usage = RecentUsage(0.0, {1: 2.004, 2: 5.0})
    rows = waiting_rows((of("alice", 1, "a", 1.0, behind=12), C1), usage)
    assert [(r.jobs_behind, r.gpu_hours) for r in rows] == [(12, 2.0), (None, None)]
    shown = usage_rows(usage, lambda uid: f"user{uid}")
    assert [(r.user, r.gpu_hours) for r in shown] == [("user2", 5.0), ("user1", 2.0)]


def test_a_ticket_says_how_many_jobs_wait_behind_it() -> None:
    good = document(of("alice", 1, "a", 1.0, behind=12))
    assert ticket_from_json(good).jobs_behind == 12
    del good["jobs_behind"]
    assert ticket_from_json(good).jobs_behind is None
    for wrong in (-1, 10**7, "3", 1.5):
        with pytest.raises(Invalid):
            ticket_from_json({**good, "jobs_behind": wrong})
