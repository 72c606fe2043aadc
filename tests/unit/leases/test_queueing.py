"""Whose turn it is: fair, without starving the large, and blind to those who have left."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import lacks_memory, pick
from andon.leases.rules.queue import (
    ASLEEP_SECONDS,
    MEMORY_SECONDS,
    TAKING_SECONDS,
    UNSEEN_SECONDS,
    TurnTimes,
    Waiting,
    by_user,
    in_front_of,
    in_order,
    promised,
    remembered,
)
from andon.model.device import DeviceStatus, Process, State
from andon.model.lease import Cordon, Ticket
from andon.units import GIB, MIB
from tests.support.rows import rows
from tests.support.sharing_parts import TOTAL, capacities_of, claim, gpu, lease, need, ticket


def test_priority_comes_first_and_then_who_came_first() -> None:
    late, early = ticket("late", since=2.0), ticket("early", since=1.0)
    urgent, idle = ticket("urgent", 9.0, priority=5), ticket("idle", 0.0, priority=-5)
    line = in_order([Waiting(t, 10.0) for t in (late, idle, early, urgent)], at=10.0)
    assert [t.id for t in line] == ["urgent", "early", "late", "idle"]
    assert [t.id for t in in_front_of(line, late, 10.0)] == ["urgent", "early"]


def test_who_has_stopped_looking_is_not_in_line() -> None:
    stopped = Waiting(ticket("stopped"), polled_at=10.0 - ASLEEP_SECONDS - 0.1)
    assert in_order([stopped, Waiting(ticket("awake"), 10.0)], 10.0) == [ticket("awake")]


@pytest.mark.parametrize("step", [3600.0, -3600.0, 86_400.0, -86_400.0])
def test_a_step_of_the_clock_costs_nobody_a_place(step: float) -> None:
    at = 1e9 + 60 + step
    came = [ticket(name, 1e9 + n) for n, name in enumerate("zyx")]
    later = ticket("a", at - 1)
    line = in_order([Waiting(t, at) for t in (later, *came)], at)
    assert [t.id for t in line] == ["z", "y", "x", "a"]
    assert in_front_of(line, later, at) == came
    assert in_front_of(line, came[1], at) == came[:1]


def test_one_that_can_be_served_keeps_only_what_it_gets() -> None:
    taken = promised([ticket(wanted=need(2))], capacities_of([gpu(i) for i in range(4)])).devices
    assert len(taken) == 2
    assert "promised to alice, next in the queue (2 GPUs)" in next(iter(taken.values())).reason


def test_one_that_cannot_keeps_all_that_it_may_be_met_by() -> None:
    found = capacities_of([gpu(i) for i in range(4)], claim(lease(0)))
    taken = promised([ticket(wanted=need(3, [0, 1, 2]))], found).devices
    assert set(taken) == {"GPU-0", "GPU-1", "GPU-2"}


def test_one_that_no_end_of_work_can_help_keeps_nothing() -> None:
    found = capacities_of([gpu(0), gpu(1, state=State.LOST)])
    assert promised([ticket(wanted=need(2, [0, 1]))], found).devices == {}


def test_a_time_to_come_does_not_keep_one_in_line() -> None:
    """Its owner sets a file's time: one of next year would be awake until then."""
    ahead = Waiting(ticket("ahead"), polled_at=10.0 + ASLEEP_SECONDS + 0.1)
    assert in_order([ahead], 10.0) == []


def test_one_that_has_not_taken_what_it_could_have_had_keeps_nothing() -> None:
    free = capacities_of([gpu(i) for i in range(4)])
    idle = ticket("idle", wanted=need(4, range(4)))
    first = promised([idle], free, need(1), TurnTimes(100.0))
    assert len(first.devices) == 4
    soon = promised([idle], free, need(1), TurnTimes(100.0 + TAKING_SECONDS - 0.1, first.since))
    assert (len(soon.devices), soon.late) == (4, frozenset())
    later = promised([idle], free, need(1), TurnTimes(100.0 + TAKING_SECONDS, soon.since))
    assert later.devices == {}
    assert later.late == {(1000, "idle")}
    still = promised([idle], free, need(1), TurnTimes(500.0, later.since))
    assert still.devices == {}


def test_a_moment_in_which_it_could_not_be_served_gives_it_the_whole_time_again() -> None:
    free, busy = capacities_of([gpu(0)]), capacities_of([gpu(0)], claim(lease(0)))
    idle = ticket("idle", wanted=need(1, [0]))
    first = promised([idle], free, turns=TurnTimes(100.0))
    taken = promised([idle], busy, turns=TurnTimes(110.0, first.since))
    again = promised([idle], free, turns=TurnTimes(100.0 + TAKING_SECONDS, taken.since))
    assert set(again.devices) == {"GPU-0"}


def test_many_tickets_of_one_user_do_not_take_turns_at_it() -> None:
    free = capacities_of([gpu(i) for i in range(4)])
    idle = [ticket(f"t{n}", since=n, wanted=need(4, range(4))) for n in range(9)]
    other = ticket("other", since=20.0, wanted=need(4, range(4)), uid=1001)
    since = promised([*idle, other], free, need(1), TurnTimes(100.0)).since
    found = promised([*idle, other], free, need(1), TurnTimes(100.0 + TAKING_SECONDS, since))
    assert {uid for uid, _ in found.late} == {1000}
    assert len(found.devices) == 4, "who never had its turn still has it"


def test_one_that_waits_for_devices_that_nobody_sees_does_not_keep_ours_for_ever() -> None:
    seen = capacities_of([gpu(i) for i in range(4)])
    large = ticket("large", wanted=need(9, range(40)))
    first = promised([large], seen, need(1), TurnTimes(100.0))
    assert len(first.devices) == 4
    assert len(promised([large], seen, need(1), TurnTimes(200.0, first.since)).devices) == 4
    assert (
        promised([large], seen, need(1), TurnTimes(100.0 + UNSEEN_SECONDS, first.since)).devices
        == {}
    )


def test_more_memory_than_a_device_ever_has_is_not_waited_for() -> None:
    found = capacities_of([gpu(0), gpu(1)], claim(lease(0)))
    assert promised([ticket(wanted=need(2, [0, 1], memory_bytes=2**50))], found).devices == {}


FULL = int(79.6 * GIB) + MIB


@rows(
    ("devices", "asked", "count"),
    [
        ([gpu(0), gpu(1)], {"memory_bytes": TOTAL + 1}, 1),
        ([gpu(0, memory_reserved_bytes=GIB), gpu(1, total=GIB)], {"memory_bytes": TOTAL}, 1),
        ([gpu(0, 0.4), gpu(1, 0.4)], {"memory_bytes": FULL}, 1),  # more than is free when idle
        ([gpu(0), gpu(1)], {"cordoned": True}, 2),
        ([gpu(0), gpu(1)], {"cordoned": True, "even_if_used": True}, 2),
        ([gpu(0), gpu(1, state=State.LOST)], {"even_if_used": True}, 2),
        ([gpu(0), gpu(1)], {}, 3),
    ],
)
def test_what_cannot_be_met_is_promised_nothing(
    devices: list[DeviceStatus], asked: dict[str, Any], count: int
) -> None:
    options = {name: value for name, value in asked.items() if name != "cordoned"}
    cordons = (Cordon("GPU-1", 1.0, "root"),) if "cordoned" in asked else ()
    found = capacities_of(devices, cordons=cordons)
    assert promised([ticket(wanted=need(count, [0, 1], **options))], found).devices == {}


def test_more_memory_than_is_free_is_waited_for_where_work_may_end() -> None:
    wanted = need(1, [0], memory_bytes=70 * GIB)
    process = Process(7, memory_bytes=20 * GIB)
    for found in (
        capacities_of([gpu(0, 20.0, processes=[process])]),
        capacities_of([gpu(0, 20.0)]),  # of a process that cannot be seen
        capacities_of([gpu(0)], claim(lease(0, memory_gib=20))),
    ):
        assert not lacks_memory(found, wanted)
    assert lacks_memory(capacities_of([gpu(0, 0.2)]), need(1, [0], memory_bytes=TOTAL))


@dataclass
class Machine:
    """Eight devices and a line in front of them; every step asks the pure modules alone."""

    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    line: list[Ticket] = field(default_factory=list)
    clock: float = 0.0

    def capacities(self) -> tuple[DeviceCapacity, ...]:
        claims = [claim(lease(*devices, name=name)) for name, devices in self.held.items()]
        return capacities_of([gpu(i) for i in range(8)], *claims)

    def arrive(self, count: int, devices: list[int], priority: int) -> None:
        self.clock += 1
        wanted = need(min(count, len(devices)), devices)
        self.line.append(ticket(f"t{self.clock:.0f}", self.clock, priority, wanted))

    def serve(self, turn: int) -> tuple[Ticket, tuple[int, ...], list[Ticket]] | None:
        """Whoever looks next takes what it may; returns who was passed over by it."""
        line = in_order([Waiting(t, self.clock) for t in self.line], self.clock)
        if not line:
            return None
        asking = line[turn % len(line)]
        ahead = in_front_of(line, asking, self.clock)
        group = pick(
            self.capacities(), asking.need, promised(ahead, self.capacities()).devices.keys()
        )
        if not group:
            return None
        devices = tuple(capacity.status.device.index for capacity in group)
        self.held[asking.id] = devices
        self.line.remove(asking)
        return asking, devices, ahead


arrivals = st.tuples(
    st.integers(1, 8),
    st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True),
    st.integers(-1, 1),
)
events = st.lists(st.one_of(arrivals, st.integers(0, 30), st.just("end")), max_size=60)


@given(events)
def test_nobody_is_overtaken_by_one_that_touches_what_a_blocked_one_in_front_needs(
    happened: list[object],
) -> None:
    machine = Machine()
    for event in happened:
        if event == "end" and machine.held:
            machine.held.pop(next(iter(machine.held)))
        elif isinstance(event, tuple):
            machine.arrive(*event)
        elif isinstance(event, int):
            before = machine.capacities()
            served = machine.serve(event)
            if served is None:
                continue
            _, devices, ahead = served
            for other in ahead:
                touched = {f"GPU-{index}" for index in devices} & other.need.eligible
                # One in front that could be served keeps its group free; one that could not,
                # every device that may be its own.
                still = pick(machine.capacities(), other.need)
                assert not touched or (pick(before, other.need) and still), other
        taken = [index for devices in machine.held.values() for index in devices]
        assert len(taken) == len(set(taken))


@given(st.lists(arrivals, min_size=1, max_size=12), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_a_large_request_is_served_however_many_small_ones_come_after_it(
    earlier: list[tuple[int, list[int], int]], luck: object
) -> None:
    machine = Machine()
    for event in earlier:
        machine.arrive(*event)
        machine.serve(0)
    machine.arrive(8, list(range(8)), 0)
    large = machine.line[-1]
    for _ in range(400):
        machine.arrive(1, [luck.randrange(8)], 0)  # type: ignore[attr-defined]
        for turn in range(len(machine.line)):
            machine.serve(turn)
        if large.id in machine.held:
            return
        if machine.held:
            machine.held.pop(next(iter(machine.held)))
    raise AssertionError(f"starved: {machine.line[0]}")


def test_a_request_that_does_not_wait_goes_by_what_earlier_ones_saw_of_a_user() -> None:
    free, idle = capacities_of([gpu(0)]), ticket("t2", wanted=need(1, [0]))
    users = by_user(
        promised([ticket("t1", wanted=need(1, [0]))], free, turns=TurnTimes(100.0)).since
    )
    assert users == {1000: 100.0}
    soon = promised([idle], free, turns=TurnTimes(100.0 + TAKING_SECONDS - 0.1, users=users))
    assert set(soon.devices) == {"GPU-0"}
    later = promised([idle], free, turns=TurnTimes(100.0 + TAKING_SECONDS, users=users))
    assert later.devices == {}, "another ticket of the same user does not start the time again"
    assert by_user(later.since) == users


@pytest.mark.parametrize(
    ("at", "taken", "kept"),
    [
        (130.0, {}, True),
        (130.0, {1000: 31.0}, True),  # a lease from before
        (130.0, {1000: 29.0}, False),  # it has taken one since
        (130.0, {1001: 1.0}, True),  # another user's
        (100.0 + MEMORY_SECONDS, {}, True),
        (100.1 + MEMORY_SECONDS, {}, False),  # long ago
        (99.0, {}, False),  # a time to come
    ],
)
def test_who_took_a_lease_or_was_seen_long_ago_is_not_idle(
    at: float, taken: dict[int, float], kept: bool
) -> None:
    assert bool(remembered({1000: 100.0}, taken, at)) is kept
