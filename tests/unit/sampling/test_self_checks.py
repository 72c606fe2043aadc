"""andon's own pulse: what is too dear, missed or not kept becomes a trouble."""

import pytest
from msgspec.structs import replace

from andon.alerts.rules.self_checks import SelfStats, StoreStats, troubles
from andon.alerts.self_monitor import SelfMonitor
from andon.errors import Invalid
from andon.host.clock import offset
from andon.sampling.sampler import Costs

BEGIN = SelfStats(at=0.0)
GOOD = SelfStats(at=300.0, snapshots=300, cpu_seconds=3.0, store=StoreStats(None, "", 0, 10, 100))


@pytest.mark.parametrize(
    ("now", "subject", "words"),
    [
        (replace(GOOD, missed=100), "sampler", "25 % of readings missed in the last 5 min"),
        (replace(GOOD, cpu_seconds=90.0), "sampler", "sampling uses 30 % of a core"),
        (replace(GOOD, failed=2), "sampler", "2 readings failed in the last 5 min"),
        (replace(GOOD, store=StoreStats("the disk is full")), "store", "the disk is full"),
        (replace(GOOD, store=StoreStats(dropped=7)), "store", "7 readings could not be stored"),
        (
            replace(GOOD, store=StoreStats(size_bytes=130, budget_bytes=100)),
            "store",
            "the history uses 130 % of its size limit",
        ),
    ],
)
def test_each_trouble_has_its_words(now: SelfStats, subject: str, words: str) -> None:
    (found,) = troubles(BEGIN, now)
    assert (found.subject, found.reason) == (subject, words)


def test_a_healthy_server_has_none() -> None:
    assert troubles(BEGIN, GOOD) == ()
    assert troubles(BEGIN, BEGIN) == ()
    assert troubles(GOOD, replace(GOOD, at=301.0, snapshots=301, missed=1)) == (), (
        "too early to say"
    )


def test_several_of_the_sampler_are_one() -> None:
    (found,) = troubles(BEGIN, replace(GOOD, missed=100, failed=1))
    assert ";" in found.reason


def test_the_pulse_compares_now_with_minutes_ago() -> None:
    now, costs = [0.0], [Costs()]
    pulse = SelfMonitor(lambda: costs[0], StoreStats, lambda: now[0])
    assert pulse() == ()
    now[0], costs[0] = 60.0, Costs(snapshots=30, missed=30)
    assert [trouble.subject for trouble in pulse()] == ["sampler"]
    now[0] = 62.0
    assert [trouble.subject for trouble in pulse()] == ["sampler"], "felt every few seconds"
    now[0], costs[0] = 500.0, Costs(snapshots=470, missed=30)
    assert pulse() == (), "what was missed is long ago"


def test_local_time_follows_the_zone() -> None:
    summer, winter = 1_783_000_000.0, 1_794_700_800.0
    berlin = offset("Europe/Berlin")
    assert (berlin(summer), berlin(winter)) == (7200.0, 3600.0)
    assert offset("UTC")(summer) == 0.0


@pytest.mark.parametrize("zone", ["Nowhere/At all", "../etc/passwd", "/etc/passwd", "\0"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(Invalid, match="time zone"):
        offset(zone)
