"""Which jobs start now: examples, and the property that no job is delayed by one behind it."""

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.jobs.rules.dispatch import (
    Booked,
    DispatchPlan,
    PlannedStart,
    QueuedJob,
    could_start,
    leaving,
    plan,
)
from andon.jobs.rules.expected import BusyUntil, Learned, expected_starts
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import rank
from andon.leases.rules.spans import Span, first_gap
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobFacts
from andon.model.job.spec import JobSpec
from tests.support.invariants import PlanError, check_plan
from tests.support.sharing_parts import capacities_of, claim, gpu, lease, need

AT = 1000.0


def node(*untils: float | str | None) -> tuple[DeviceCapacity, ...]:
    """A device for each: "free", or leased until then, or without a limit (None)."""
    held = [
        claim(lease(index, name=f"l{index}", until=until))
        for index, until in enumerate(untils)
        if until != "free"
    ]
    return capacities_of([gpu(index) for index in range(len(untils))], *held)


def queued(
    number: int, count: int = 1, lasts: float | None = None, on: Sequence[int] = range(8)
) -> QueuedJob:
    return QueuedJob(number, need(count, on), lasts)


def started(found: DispatchPlan) -> list[tuple[int, tuple[str, ...]]]:
    return [(one.number, one.uuids) for one in found.starts]


def test_jobs_start_in_their_order_on_different_devices() -> None:
    found = plan([queued(1), queued(2, 2), queued(3)], node("free", "free", "free"), AT)
    assert started(found) == [(1, ("GPU-0",)), (2, ("GPU-1", "GPU-2"))]


def test_a_device_that_a_job_is_to_leave_comes_last() -> None:
    order = leaving({"GPU-0"}, rank({"GPU-0"}))
    for free, uuids in ((("free", "free"), "GPU-1"), (("free", None), "GPU-0")):
        found = plan([replace(queued(1), order=order)], node(*free), AT)
        assert started(found) == [(1, (uuids,))]


def test_nothing_passes_a_job_whose_moment_is_not_known() -> None:
    """One device is free, and the other is held without a limit."""
    found = plan([queued(1, 2), queued(2, 1, 10.0)], node("free", None), AT)
    assert started(found) == []
    assert found.blocked[0].could_start is None


def test_a_short_job_passes_and_a_long_one_does_not() -> None:
    capacities = node("free", AT + 100)
    assert started(plan([queued(1, 2), queued(2, 1, 99.0)], capacities, AT)) == [(2, ("GPU-0",))]
    assert started(plan([queued(1, 2), queued(2, 1, 101.0)], capacities, AT)) == []
    assert started(plan([queued(1, 2), queued(2, 1, None)], capacities, AT)) == []


def test_a_short_job_passes_a_long_one_that_is_kept_back_itself() -> None:
    """The second could only start after the first."""
    jobs = [queued(1, 2), queued(2, 1, 500.0), queued(3, 1, 50.0)]
    assert started(plan(jobs, node("free", AT + 100), AT)) == [(3, ("GPU-0",))]


def test_what_the_first_cannot_use_is_free_for_others() -> None:
    found = plan([queued(1, 1, on=[1]), queued(2)], node("free", None), AT)
    assert started(found) == [(2, ("GPU-0",))]
    assert found.starts[0].passes == (1,)


def test_a_job_that_can_never_start_keeps_nothing() -> None:
    found = plan([queued(1, 3, on=[0, 1]), queued(2)], node("free", "free"), AT)
    assert started(found) == [(2, ("GPU-0",))]


def test_reserved_devices_are_left_alone() -> None:
    assert started(plan([queued(1)], node("free", "free"), AT, {"GPU-0"})) == [(1, ("GPU-1",))]


def test_ten_thousand_alike_are_considered_once() -> None:
    jobs = [queued(n, 2) for n in range(10_000)]
    found = plan(jobs, node("free", None), AT)
    assert (found.starts, len(found.blocked)) == ((), 1)


def test_validate_finds_what_breaks_a_rule() -> None:
    capacities = node("free", AT + 100)
    jobs = [queued(1, 2), queued(2, 1, 200.0), queued(3, 1, 50.0)]
    check_plan(DispatchPlan((PlannedStart(3, ("GPU-0",)),)), jobs, capacities, AT)
    for starts, words in (
        ((PlannedStart(2, ("GPU-0",)),), "delays job 1"),
        ((PlannedStart(3, ("GPU-1",)),), "not available"),
        ((PlannedStart(3, ("GPU-0",)), PlannedStart(3, ("GPU-0",))), "given twice"),
        ((PlannedStart(3, ()),), "gets 0 devices"),
    ):
        with pytest.raises(PlanError, match=words):
            check_plan(DispatchPlan(starts), jobs, capacities, AT)


devices = st.lists(st.sampled_from(["free", None, 5.0, 10.0, 20.0, 40.0]), min_size=1, max_size=5)
shapes = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.none() | st.sampled_from([3.0, 5.0, 10.0, 25.0]),
        st.sets(st.integers(0, 4), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=7,
)
Shape = tuple[int, float | None, set[int]]


def jobs_of(given: Sequence[Shape]) -> list[QueuedJob]:
    return [queued(n, count, lasts, sorted(on)) for n, (count, lasts, on) in enumerate(given)]


@given(devices, shapes)
def test_every_plan_keeps_the_rules(ends: list[float | str | None], given: list[Shape]) -> None:
    capacities, jobs = node(*_from(ends)), jobs_of(given)
    check_plan(plan(jobs, capacities, AT), jobs, capacities, AT)


reserved = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0.0, 4.0, 12.0]), st.sampled_from([3.0, 9.0])),
    max_size=4,
)


@given(devices, shapes, reserved)
def test_no_job_is_delayed_by_one_behind_it(
    ends: list[float | str | None], given: list[Shape], spans: list[tuple[int, float, float]]
) -> None:
    """Where leases end by their limits, each job starts as early as without those behind it, also
    around what others have reserved, into which no job lasts."""
    jobs, booked = jobs_of(given), booked_of(spans)
    together = play(jobs, _from(ends), booked)
    for place, job in enumerate(jobs):
        alone = play(jobs[: place + 1], _from(ends), booked)
        assert together.get(job.number, inf) <= alone.get(job.number, inf), job


def booked_of(given: list[tuple[int, float, float]]) -> dict[str, tuple[Span, ...]]:
    out: dict[str, tuple[Span, ...]] = {}
    for place, begins, lasts in given:
        span = AT + begins, AT + begins + lasts
        out[f"GPU-{place}"] = (*out.get(f"GPU-{place}", ()), span)
    return out


def test_a_job_starts_before_a_reservation_only_if_it_ends_by_then() -> None:
    booked = booked_of([(0, 10.0, 20.0)])
    one = node("free")
    assert started(plan([queued(1, lasts=10.0)], one, AT, booked=booked)) == [(1, ("GPU-0",))]
    for lasts in (10.1, None):
        found = plan([queued(1, lasts=lasts)], one, AT, booked=booked)
        assert (found.starts, found.blocked[0].could_start) == ((), AT + 30), lasts
    behind = plan([queued(1), queued(2, lasts=5.0)], one, AT, booked=booked)
    assert started(behind) == [(2, ("GPU-0",))], "it has ended before the first may start"


def _from(ends: list[float | str | None]) -> list[float | str | None]:
    return [AT + end if isinstance(end, float) else end for end in ends]


def play(
    jobs: Sequence[QueuedJob], ends: Sequence[float | str | None], booked: Booked
) -> dict[int, float]:
    """When each job starts, if everything lasts exactly as long as it may."""
    busy, waiting, begun, at = list(ends), list(jobs), dict[int, float](), AT
    while True:
        busy = ["free" if isinstance(end, float) and end <= at else end for end in busy]
        found = plan(waiting, node(*busy), at, booked=booked)
        for start in found.starts:
            job = next(one for one in waiting if one.number == start.number)
            begun[start.number] = at
            waiting.remove(job)
            for uuid in start.uuids:
                lasts = job.lasts_seconds
                assert first_gap(booked.get(uuid, ()), at, lasts) == at
                busy[int(uuid.removeprefix("GPU-"))] = None if lasts is None else at + lasts
        if found.starts:
            continue
        later = [end for end in busy if isinstance(end, float) and end > at]
        later += [end for spans in booked.values() for _, end in spans if end > at]
        if not later or not waiting:
            return begun
        at = min(later)


@given(devices, st.integers(1, 3))
def test_the_moment_of_a_job_is_known_where_enough_leases_have_limits(
    ends: list[float | str | None], count: int
) -> None:
    known = sorted(AT + end if isinstance(end, float) else AT for end in ends if end is not None)
    wanted = known[count - 1] if len(known) >= count else inf
    assert could_start(node(*_from(ends)), QueuedJob(1, need(count)), AT) == wanted


def job(number: int, name: str, count: int = 1) -> JobFacts:
    request = DeviceRequest(least=count, most=count)
    return JobFacts(JobSpec(number, name, ("x",), "/", request, AT))


def test_an_expected_start_comes_from_runs_of_the_same_name() -> None:
    known = {"train": Learned(100.0, 6)}
    found = expected_starts(
        [job(1, "train"), job(2, "train"), job(3, "other")], [BusyUntil(AT + 50, 6)], known
    )
    assert (found[1].at, found[1].runs) == (AT + 50, 6)
    assert (found[2].at, found[2].runs) == (AT + 150, 6)
    assert found[3].at == AT + 250
    assert 4 not in expected_starts([job(3, "other"), job(4, "train")], [BusyUntil(AT)], known)
    assert expected_starts([job(1, "train", 2)], [BusyUntil(AT), BusyUntil(inf)], known) == {}
