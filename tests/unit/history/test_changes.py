"""What else changed in a range: each kind, their order, and what is not said."""

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.history.rules.changes import (
    ChangeKind,
    RangeFacts,
    RecordedWork,
    changes,
    shares_as_readings,
)
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import HistoryNote
from andon.history.rules.series import Bucket
from andon.model.alert import Alert, Level, Phase
from andon.units import GIB
from tests.support.rows import rows

SINCE, UNTIL, NOW = 1000.0, 1600.0, 9000.0
FACTS = RangeFacts(SINCE, UNTIL, NOW)


def bucket(mean: float | None, highest: float | None = None) -> Bucket:
    if mean is None:
        return Bucket(0, 1)
    return Bucket(0, 1, 10, mean, mean, mean if highest is None else highest)


def texts(facts: RangeFacts) -> list[str]:
    return [one.text for one in changes(facts)]


def use(first: float, last: float, name: str | None = "train.py", pid: int = 1) -> UsageInterval:
    return UsageInterval("GPU-0", pid, first, "ada", name, first, last, 48 * GIB)


def alert(level: Level, fired: float | None, resolved: float | None = None) -> Alert:
    phase = Phase.FIRING if resolved is None else Phase.RESOLVED
    return Alert(
        "a#1", "thermal", "GPU-0", level, phase, 0.0, fired=fired, resolved=resolved, message="hot"
    )


def note(since: float, text: str = "new fan", driver: bool = False) -> HistoryNote:
    return HistoryNote("n1", since, since, since, text, "GPU-0", "" if driver else "ada", driver)


@rows("name, before, now, text", [
    ("temperature_celsius", bucket(54), bucket(71), "temperature rose from 54 °C to 71 °C"),
    ("temperature_celsius", bucket(54), bucket(56), None),
    ("power_watts", bucket(700), bucket(350), "power fell from 700 W to 350 W"),
    ("memory_used_bytes", bucket(0), bucket(61 * GIB), "memory rose from 0 B to 61.0 GiB"),
    ("memory_used_bytes", bucket(2048 * GIB), bucket(2049 * GIB), None),
    ("utilization_percent", bucket(20, 30), bucket(22, 100),
     "utilisation was up to 100 %, before up to 30 %"),
    ("ecc_uncorrected", bucket(0), bucket(1), "uncorrected ECC errors rose from 0 to 1"),
    ("throttle:sw_power_cap", bucket(0), bucket(40),
     "time throttled by power cap rose from 0 % to 40 %"),
    ("energy_joules", bucket(1e6), bucket(2e6), None),
    ("memory_free_bytes", bucket(61 * GIB), bucket(0), None),
    ("sm_clock_mhz", bucket(1980), bucket(None), "nothing was read in this range"),
    ("sm_clock_mhz", bucket(None), bucket(1980), "nothing was read in the range before"),
    ("sm_clock_mhz", bucket(None), bucket(None), None),
])  # fmt: skip
def test_a_reading_is_compared_with_that_of_the_range_before(
    name: str, before: Bucket, now: Bucket, text: str | None
) -> None:
    facts = replace(FACTS, readings={name: (before, now)})
    assert texts(facts) == ([] if text is None else [text])


def test_an_unknown_reading_is_not_zero() -> None:
    known = {"power_watts": (bucket(300), bucket(300))}
    fan, hot = (bucket(90), bucket(None)), (bucket(None), bucket(80))
    unknown = {"temperature_celsius": hot, "fan_percent": fan}
    assert texts(replace(FACTS, readings=known | unknown)) == []
    shares = shares_as_readings({"sw_power_cap": [None, 1.0]}, [0, 10])
    assert texts(replace(FACTS, readings={**known, **dict(shares)})) == []


@rows("uses, text", [
    ([use(1100, 5000)], "train.py of ada began, with up to 48.0 GiB"),
    ([use(10, 1100)], "train.py of ada ended, with up to 48.0 GiB"),
    ([use(1100, 1220)], "train.py of ada ran for 2 min, with up to 48.0 GiB"),
    ([use(1100, 1220), use(1300, 1310, pid=2)],
     "train.py of ada ran 2 times, with up to 48.0 GiB"),
    ([use(1100, 5000, None)], "a process of ada began, with up to 48.0 GiB"),
    ([use(10, 5000)], None),
    ([use(10, 900)], None),
])  # fmt: skip
def test_processes_that_began_and_ended(uses: list[UsageInterval], text: str | None) -> None:
    assert texts(replace(FACTS, uses=uses)) == ([] if text is None else [text])


def test_one_that_was_there_a_moment_ago_has_not_ended() -> None:
    assert texts(replace(FACTS, uses=[use(10, 1590)], now=1600.0)) == []


def test_one_is_not_new_because_nothing_was_read_before() -> None:
    readings = {"power_watts": (bucket(None), bucket(300))}
    seen_late = replace(use(1100, 5000), started=10.0)
    found = texts(replace(FACTS, uses=[seen_late], readings=readings))
    assert found == ["nothing was read in the range before"]


def test_the_order_is_that_of_what_matters_most() -> None:
    facts = RangeFacts(
        SINCE, UNTIL, NOW,
        {"temperature_celsius": (bucket(54), bucket(71))},
        [use(1100, 5000)],
        [
            RecordedWork(ChangeKind.RUN, "run k (x) of ada", 10, 1200, ": failed", failed=True),
            RecordedWork(ChangeKind.LEASE, "a lease of ada", 1100),
            RecordedWork(ChangeKind.RUN, "run m (y) of ada", 10, None),
        ],
        [alert(Level.CRITICAL, 1300), alert(Level.WARNING, 500, 1400), alert(Level.INFO, None)],
        [note(1000), note(1500, "nvidia 570 was replaced by 580", driver=True), note(1600)],
    )  # fmt: skip
    assert texts(facts) == [
        "nvidia 570 was replaced by 580",
        "alert: hot",
        "note of ada: new fan",
        "train.py of ada began, with up to 48.0 GiB",
        "run k (x) of ada ended: failed",
        "alert over: hot",
        "a lease of ada began",
        "temperature rose from 54 °C to 71 °C",
    ]


_MEANS = st.one_of(st.none(), st.floats(0, 1e12, allow_nan=False))
_NAMES = st.sampled_from(
    ["power_watts", "temperature_celsius", "memory_used_bytes", "fan_percent", "sm_clock_mhz"]
)
_TIMES = st.floats(0, 3000, allow_nan=False)


@given(st.dictionaries(_NAMES, _MEANS))
def test_where_nothing_changed_nothing_is_said(means: dict[str, float | None]) -> None:
    same = {name: (bucket(mean), bucket(mean)) for name, mean in means.items()}
    staying = [use(10, 5000, pid=pid) for pid in range(3)]
    assert changes(replace(FACTS, readings=same, uses=staying)) == []


@given(
    st.dictionaries(_NAMES, st.tuples(_MEANS, _MEANS)),
    st.lists(st.tuples(_TIMES, _TIMES), max_size=6),
    st.lists(_TIMES, max_size=4),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_facts_does_not_matter(
    means: dict[str, tuple[float | None, float | None]],
    spans: list[tuple[float, float]],
    times: list[float],
    order: random.Random,
) -> None:
    readings = {name: (bucket(one), bucket(other)) for name, (one, other) in means.items()}
    uses = [use(min(pair), max(pair), f"p{place % 2}") for place, pair in enumerate(spans)]
    notes = [note(at, f"text {at}") for at in times]
    facts = replace(FACTS, readings=readings, uses=uses, notes=notes)
    found = changes(facts)
    items = list(readings.items())
    for some in (items, uses, notes):
        order.shuffle(some)
    assert changes(replace(facts, readings=dict(items), uses=uses, notes=notes)) == found
    assert [one.weight for one in found] == sorted((c.weight for c in found), reverse=True)
