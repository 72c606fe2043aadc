"""Who used how much: hours, energy and idle share per user."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Bucket
from andon.history.rules.usage import (
    Days,
    DeviceReadings,
    Holding,
    add_runs,
    by_day,
    summed,
)


def use(user: str | None, first: float, last: float, pid: int = 1) -> UsageInterval:
    return UsageInterval("GPU-0", pid, 0.0, user, "python", first, last)


def only(busy: list[Bucket]) -> dict[str, DeviceReadings]:
    return {"GPU-0": DeviceReadings(busy)}


def test_hours_energy_and_idleness_are_divided_by_who_was_there() -> None:
    busy = {"GPU-0": [Bucket(0, 60, 60, 0, 0, 0), Bucket(60, 120, 60, 50, 90, 99)]}
    power = {"GPU-0": [Bucket(0, 60, 60, 100, 100, 100), Bucket(60, 120, 60, 300, 300, 300)]}
    uses = [use("alice", 0, 120), use("alice", 0, 120, pid=2), use("bob", 60, 90, pid=3)]
    read = {"GPU-0": DeviceReadings(busy["GPU-0"], power["GPU-0"])}
    alice, bob = summed(by_day(uses, read, day_of).items())
    assert (alice.user, alice.device_seconds, alice.idle_share) == ("alice", 120, 0.5)
    assert (bob.user, bob.device_seconds, bob.idle_share) == ("bob", 30, 0.0)
    assert alice.energy_joules == pytest.approx(100 * 60 + 300 * 60 * 2 / 3)
    assert bob.energy_joules == pytest.approx(300 * 60 / 3), "together they are the device's"


def test_what_was_not_recorded_is_neither_idle_nor_energy() -> None:
    [nobody] = summed(by_day([use(None, 0, 60)], only([Bucket(0, 60)]), day_of).items())
    assert (nobody.user, nobody.idle_share, nobody.energy_joules) == ("–", None, None)


HALF_HOUR = 1800.0


def day_of(at: float) -> str:
    return f"day {int(at // 7200)}"


def halves(*busiest: float | None) -> list[Bucket]:
    """Half an hour each; None where nothing was read."""
    return [
        Bucket(n * HALF_HOUR, (n + 1) * HALF_HOUR)
        if most is None
        else Bucket(n * HALF_HOUR, (n + 1) * HALF_HOUR, 60, 0, most / 2, most)
        for n, most in enumerate(busiest)
    ]


def test_each_day_has_its_own_hours_and_the_sum_is_the_same() -> None:
    busy = only(halves(90, 90, 0, 90, 0, 0))
    days = by_day([use("alice", 0, 9 * HALF_HOUR)], busy, day_of)
    assert {day: usage.device_seconds for (day, _), usage in days.items()} == {
        "day 0": 7200.0,
        "day 1": 3600.0,
    }
    [alice] = summed(days.items())
    assert (alice.device_seconds, alice.idle_share) == (10800.0, 0.5)


def test_only_long_idle_spells_are_held_against_someone() -> None:
    short = only([Bucket(60.0 * n, 60.0 * (n + 1), 6, 0, 0, 0) for n in range(29)])
    [alice] = summed(by_day([use("alice", 0, 1e6)], short, day_of).items())
    assert (alice.idle_share, alice.held_idle_share) == (1.0, 0.0)
    long = only([Bucket(60.0 * n, 60.0 * (n + 1), 6, 0, 0, 0) for n in range(30)])
    [alice] = summed(by_day([use("alice", 0, 1e6)], long, day_of).items())
    assert alice.held_idle_share == 1.0


def test_what_was_not_read_ends_a_spell_and_is_not_held_against_anyone() -> None:
    parts = [Bucket(600.0 * n, 600.0 * (n + 1), 0 if n == 2 else 6, 0, 0, 0) for n in range(5)]
    [alice] = summed(by_day([use("alice", 0, 1e6)], only(parts), day_of).items())
    assert alice.held_idle_share == 0.0


def test_a_device_reserved_for_a_run_is_held_without_a_process() -> None:
    held = [Holding("GPU-0", "bob", 0, 2 * HALF_HOUR)]
    [bob] = summed(by_day([], only(halves(0, 0, 0)), day_of, held).items())
    assert (bob.device_seconds, bob.idle_share, bob.held_idle_share) == (0.0, None, 1.0)


def test_waits_are_of_the_day_on_which_the_run_began() -> None:
    days: Days = {}
    add_runs(
        days, [(0, "bob", 10.0), (1, "bob", 30.0), (2, "bob", None), (7200, None, 5.0)], day_of
    )
    assert (days["day 0", "bob"].runs, days["day 0", "bob"].median_wait_seconds) == (3, 20.0)
    assert days["day 1", "–"].waits == [5.0]


@given(
    st.lists(st.none() | st.sampled_from([0.0, 50.0]), max_size=12),
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.floats(0, 2e4), st.floats(0, 2e4))),
)
def test_shares_stay_between_nothing_and_everything(
    busiest: list[float | None], spans: list[tuple[str | None, float, float]]
) -> None:
    uses = [use(user, min(x, y), max(x, y), pid=n) for n, (user, x, y) in enumerate(spans)]
    for usage in summed(by_day(uses, only(halves(*busiest)), day_of).items()):
        for share in (usage.idle_share, usage.held_idle_share):
            assert share is None or 0 <= share <= 1 + 1e-9
