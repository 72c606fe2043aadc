"""One order, one count and one entry for what belongs together, on every surface."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules import listing
from andon.alerts.rules.listing import (
    Counts,
    Entry,
    counts,
    covered,
    entries,
    listed,
    needs_attention,
    worst,
)
from andon.explain.conditions.catalogue import BY_NAME, RULES
from andon.explain.conditions.condition import Subject, severity
from andon.model.alert import Acknowledgement, Alert, Level, Phase

AT = 1_767_614_400.0
DEVICE_RULES = [rule.name for rule in RULES if rule.subject_kind is Subject.DEVICE]


def alert(
    rule: str, number: str = "0", level: Level = Level.WARNING, state: Phase = Phase.FIRING,
    behind: Alert | None = None, since: float = AT,
) -> Alert:  # fmt: skip
    return Alert(
        f"{rule}@GPU-{number}#1", rule, f"GPU-{number}", level, state, since,
        where=f"GPU {number} (H200)", device=int(number.partition(":")[0]),
        severity=severity(level, BY_NAME[rule]),
        resolved=since if state is Phase.RESOLVED else None,
        inhibited_by=None if behind is None else behind.id,
    )  # fmt: skip


def names(found: list[Entry]) -> list[str]:
    return [entry.alert.id.removesuffix("#1").replace("GPU-", "") for entry in found]


def test_the_worst_comes_first_then_the_number_then_the_rule() -> None:
    found = [
        alert("thermal", "43", since=AT - 5), alert("thermal", "13"), alert("thermal", "6:10"),
        alert("thermal", "6:2"), alert("device_lost", "99", Level.CRITICAL), alert("idle", "0"),
        alert("fan", "1", state=Phase.PENDING), alert("memory", "2", Level.INFO),
        alert("driver_hung", "97", Level.CRITICAL), alert("thermal", "98", Level.CRITICAL),
    ]  # fmt: skip
    assert names(entries(reversed(found))) == [
        "device_lost@99", "thermal@98", "driver_hung@97", "thermal@6:2", "thermal@6:10",
        "thermal@13", "thermal@43", "idle@0", "memory@2", "fan@1",
    ]  # fmt: skip


def test_what_is_related_is_one_entry_and_counted_once() -> None:
    """The board said two, `andon alerts` three."""
    hot = alert("thermal", "3")
    slow = alert("throttle_thermal", "3", behind=hot)
    power = alert("power", "3", Level.INFO, behind=slow)  # behind what is behind another
    found = entries([power, slow, hot, alert("fan", "1")])
    assert [(e.alert.rule, [a.rule for a in e.related]) for e in found] == [
        ("thermal", ["throttle_thermal", "power"]),
        ("fan", []),
    ]
    assert counts(found) == Counts(warning=2)


def test_an_entry_is_as_bad_as_the_worst_in_it() -> None:
    hot = alert("thermal", "3")
    found = entries([alert("throttle_thermal", "3", Level.CRITICAL, behind=hot), hot])
    assert (found[0].level, counts(found)) == (Level.CRITICAL, Counts(critical=1))


def test_what_fires_stands_on_its_own_while_its_cause_is_pending() -> None:
    cause = alert("device_lost", "3", Level.CRITICAL, Phase.PENDING)
    hot = alert("thermal", "3", behind=cause)
    assert names(entries([cause, hot])) == ["thermal@3", "device_lost@3"]
    ended = replace(cause, state=Phase.RESOLVED, resolved=AT)
    assert names(entries([ended, hot]))[0] == "thermal@3"


def test_a_circle_loses_nobody() -> None:
    one, other = alert("thermal", "3"), alert("fan", "3")
    found = entries([replace(one, inhibited_by=other.id), replace(other, inhibited_by=one.id)])
    assert [(e.alert.rule, len(e.related)) for e in found] == [("thermal", 1)]


def test_being_in_use_is_no_alert() -> None:
    used = alert("high_usage", "3", Level.INFO)
    assert listed([used]) == []
    assert worst([used]) is None
    assert counts(entries([used])) == Counts()
    assert listed([used], everything=True) == [used]


def test_errors_from_before_andon_came_count_as_a_warning() -> None:
    old = alert("ecc", "3", Level.INFO)
    assert (worst([old]), counts(entries([old]))) == (Level.WARNING, Counts(warning=1))


def test_a_rule_of_another_version_is_listed_by_its_level() -> None:
    strange = replace(alert("thermal", "3"), rule="of_tomorrow")
    assert (worst([strange]), names(entries([strange]))) == (Level.WARNING, ["thermal@3"])


def test_what_calls_nobody_is_counted_apart() -> None:
    """A silenced alert and one that clears were on the badge, and in "troubled 2"."""
    hot = alert("thermal", "3", Level.CRITICAL)
    told = [
        hot,
        replace(hot, id="2", silenced_until=9.0),
        replace(hot, id="3", acknowledged=Acknowledgement(1.0)),
        replace(hot, id="4", clears_in_seconds=80.0),
        replace(hot, id="5", state=Phase.PENDING),
        replace(hot, id="6", state=Phase.RESOLVED, resolved=1.0),
        alert("memory", "3", Level.INFO),
        replace(alert("xid", "3", Level.CRITICAL), clears_in_seconds=80_000.0),
    ]
    found = counts(entries(told))
    assert found == Counts(critical=2, info=1, pending=1, clearing=1, handled=2)
    assert listing.level_counts(found) == ["2 critical"]
    assert listing.other_counts(found) == [
        "1 pending",
        "1 clearing",
        "2 handled",
        "1 informational",
    ]
    assert [needs_attention(one) for one in told] == [True, *6 * [False], True]
    assert listing.firing_by_level(entries(told)) == {"critical": 5, "warning": 0, "info": 1}


def test_what_a_handled_alert_explains_is_handled_too() -> None:
    """Carol acknowledged the heat, and its throttling called everybody in her place."""
    hot = replace(alert("thermal", "2"), acknowledged=Acknowledgement(1.0, "carol"))
    slow = replace(alert("throttle_thermal", "2"), inhibited_by=hot.id)
    assert [one.acknowledged for one in covered([hot, slow])] == 2 * [hot.acknowledged]
    assert covered([slow]) == [slow]
    loud = replace(hot, acknowledged=None)
    assert covered([loud, replace(slow, silenced_until=9.0)])[1].silenced_until == 9.0


def test_handled_alerts_come_last() -> None:
    """A silenced alert led every list, and the GPU that had hung was one of "1 more"."""
    hot = replace(alert("thermal", "2", Level.CRITICAL), silenced_until=9.0)
    seen = replace(alert("fan", "1"), acknowledged=Acknowledgement(1.0, "ana"))
    hung = alert("driver_hung", "0")
    assert [one.alert for one in entries([hot, seen, hung])] == [hung, hot, seen]


ALERTS = st.lists(
    st.builds(
        alert,
        st.sampled_from(DEVICE_RULES),
        st.sampled_from(["0", "3", "12", "6:0", "6:1"]),
        st.sampled_from(Level),
        st.sampled_from(Phase),
    ),
    max_size=8,
    unique_by=lambda one: one.id,
)


@given(ALERTS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6))
def test_every_alert_is_in_one_entry_whatever_explains_what(
    alerts: list[Alert], behind: list[tuple[int, int]]
) -> None:
    for one, other in behind:  # circles included
        if one < len(alerts) and other < len(alerts):
            alerts[one] = replace(alerts[one], inhibited_by=alerts[other].id)
    found = entries(alerts, everything=True)
    inside = [a.id for entry in found for a in (entry.alert, *entry.related)]
    assert sorted(inside) == sorted(a.id for a in alerts)
    assert entries(list(reversed(alerts)), everything=True) == found
    phases = [list(listing._PHASES).index(entry.alert.state) for entry in found]
    assert phases == sorted(phases)
    firing = [entry.severity for entry in found if entry.alert.state is Phase.FIRING]
    assert firing == sorted(firing, reverse=True)
    tally = counts(entries(alerts))
    assert (tally.critical + tally.warning == 0) == (worst(alerts) in (None, Level.INFO))
