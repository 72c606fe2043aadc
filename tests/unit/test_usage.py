"""Who used how much: hours, energy and idle share per user."""

import pytest

from andon.core.history.intervals import UsageInterval
from andon.core.history.series import Bucket
from andon.core.history.usage import by_user


def use(user: str | None, first: float, last: float, pid: int = 1) -> UsageInterval:
    return UsageInterval("GPU-0", pid, 0.0, user, "python", first, last)


def test_hours_energy_and_idleness_are_divided_by_who_was_there() -> None:
    busy = {"GPU-0": [Bucket(0, 60, 60, 0, 0, 0), Bucket(60, 120, 60, 50, 90, 99)]}
    power = {"GPU-0": [Bucket(0, 60, 60, 100, 100, 100), Bucket(60, 120, 60, 300, 300, 300)]}
    uses = [use("alice", 0, 120), use("alice", 0, 120, pid=2), use("bob", 60, 90, pid=3)]
    alice, bob = by_user(uses, busy, power)
    assert (alice.user, alice.device_seconds, alice.idle_share) == ("alice", 120, 0.5)
    assert (bob.user, bob.device_seconds, bob.idle_share) == ("bob", 30, 0.0)
    assert alice.energy_joules == pytest.approx(100 * 60 + 300 * 60 / 2)
    assert bob.energy_joules == pytest.approx(300 * 30 / 2)


def test_what_was_not_recorded_is_neither_idle_nor_energy() -> None:
    [nobody] = by_user([use(None, 0, 60)], {"GPU-0": [Bucket(0, 60)]}, {})
    assert (nobody.user, nobody.idle_share, nobody.energy_joules) == ("–", None, 0.0)
