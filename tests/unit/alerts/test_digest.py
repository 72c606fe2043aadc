"""The digest of a week: when it is due, and what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.digest import (
    WEEK_SECONDS,
    MachineWeek,
    WeekDigest,
    digest_notice,
    is_due,
)
from andon.alerts.rules.messages import BODY_CHARACTERS, message
from andon.history.rules.usage import Days, UserUsage
from andon.model.alert import Phase
from andon.model.event import Party
from andon.settings.moments import last_weekly
from tests.support.notices import AT, HOT, LOST, berlin, notice
from tests.support.rows import rows

HOUR, WAIT, BEGIN, SEND = 3600.0, False, None, True
GROUPS = {"ada": "vision", "bob": "vision"}


def used(user: str, hours: float, idle: float, *waits: float) -> UserUsage:
    seconds = hours * HOUR
    return UserUsage(
        user, seconds, seconds, idle * seconds, seconds * 500, seconds, runs=len(waits),
        waits=list(waits),
    )  # fmt: skip


DAYS: Days = {
    ("2026-11-09", "ada"): used("ada", 40, 0.1, 5.0, 600.0),
    ("2026-11-10", "ada"): used("ada", 60, 0.1),
    ("2026-11-10", "bob"): used("bob", 20, 0.5),
    ("2026-11-11", "eve"): UserUsage("eve", 60.0),
}
FIRED = replace(HOT, fired=AT, affected=(Party(7, "ada"),))
WEEK = WeekDigest(
    AT + 60,
    (MachineWeek("farm", DAYS, alerts=(FIRED, replace(LOST, fired=AT)), runs=2, failed_runs=1),),
    berlin, lambda user: GROUPS.get(user, "–"), 0.25, "EUR",
)  # fmt: skip


@rows("reported, at, due, step", [
    (None, 100.0, 90.0, BEGIN),
    (80.0, 100.0, 90.0, SEND),
    (90.0, 100.0, 90.0, WAIT),
    (95.0, 100.0, 90.0, WAIT),
    (120.0, 100.0, 90.0, WAIT),  # the clock was set back
    (1e9, 100.0, 90.0, BEGIN),  # it ran far ahead
    (1.0, 1e8, 1e8 - 5, SEND),  # after months: the latest alone
])  # fmt: skip
def test_what_is_due(reported: float | None, at: float, due: float, step: bool | None) -> None:
    assert is_due(reported, at, due) is step


@given(st.lists(st.floats(1.0, 5 * 86_400), min_size=1, max_size=60))
def test_each_week_is_sent_at_most_once_and_none_is_missed(pauses: list[float]) -> None:
    at, reported, sent = AT, AT, list[float]()
    for pause in pauses:
        at += pause
        due = last_weekly("Mon 08:00", at, berlin)
        if is_due(reported, at, due) is SEND:
            sent.append(due)
            reported = at
    first = last_weekly("Mon 08:00", AT, berlin)
    last = last_weekly("Mon 08:00", at, berlin)
    assert sent == [
        first + n * WEEK_SECONDS for n in range(1, round((last - first) / WEEK_SECONDS) + 1)
    ]


@rows("text", ["08:00", "2h", "Mon 25:00", "Monday 08:00 x", "15 Nov", "-"])
def test_what_is_not_weekly(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        last_weekly(text, AT, berlin)


def test_machines_people_groups_and_what_broke() -> None:
    sent = message([digest_notice(WEEK)], AT + 60, berlin, "https://board/")
    assert sent.title.startswith("farm: week to ")
    assert sent.title.endswith("120.0 GPU h, 17 % idle")
    lines = sent.body.splitlines()
    assert lines[0] == (
        "• farm: 120.0 GPU h, 17 % idle, 60.00 kWh, 15.00 EUR, "
        "waited 5 min (longest 10 min), 2 runs (1 failed)"
    )
    assert lines[2] == "What broke:"
    assert lines[3].startswith("• critical: ")
    assert lines[4].startswith("• critical: GPU 5 is lost")
    assert lines[6:10] == [
        "By user:",
        "• ada: 100.0 GPU h, 10 % idle, 50.00 kWh, 12.50 EUR, waited 5 min (longest 10 min)",
        "• bob: 20.0 GPU h, 50 % idle, 10.00 kWh, 2.50 EUR",
        "• eve: 1 min on a GPU, idle not known, energy not known",
    ]
    assert lines[11:14] == [
        "By group:",
        "• vision: 120.0 GPU h, 17 % idle, 60.00 kWh, 15.00 EUR, waited 5 min (longest 10 min)",
        "• –: 1 min on a GPU, idle not known, energy not known",
    ]
    assert lines[-1] == "https://board/"


def test_owners_get_what_they_used_and_what_affected_them() -> None:
    sent = message([digest_notice(WEEK, ("ada",))], AT + 60, berlin)
    assert sent.title.startswith("ada: week to ")
    assert "• ada: 100.0 GPU h" in sent.body
    assert "bob" not in sent.body
    assert "group" not in sent.body
    assert sent.body.count("critical: ") + sent.body.count("warning: ") == 1


def test_what_is_not_known_is_said_and_never_zero() -> None:
    dark = MachineWeek("dark", {}, recorded=False, notes=("dark has not reported lately",))
    sent = message([digest_notice(replace(WEEK, machines=(dark,)))], AT + 60, berlin)
    assert "• dark: GPU hours not known\ndark: dark has not reported lately" in sent.body
    assert "0 GPU h" not in sent.body
    assert "By user" not in sent.body


def test_of_several_machines_each_has_a_line_and_people_are_counted_once() -> None:
    two = tuple(MachineWeek(name, DAYS, alerts=(FIRED,)) for name in ("one", "two"))
    sent = message([digest_notice(replace(WEEK, machines=two))], AT + 60, berlin)
    assert sent.title.startswith("2 machines: week to ")
    assert [line[:9] for line in sent.body.splitlines()[:2]] == ["• one: 12", "• two: 12"]
    assert sent.body.count("• ada: 200.0 GPU h") == 1
    assert " one: " in sent.body.partition("What broke:")[2]


def test_an_alert_of_before_or_that_never_fired_is_not_of_the_week() -> None:
    early = replace(FIRED, since=1.0, fired=1.0, resolved=2.0, state=Phase.RESOLVED)
    calm = replace(WEEK.machines[0], alerts=(early, replace(HOT, fired=None)))
    sent = message([digest_notice(replace(WEEK, machines=(calm,)))], AT + 60, berlin)
    assert "What broke:\nnothing that alerts know" in sent.body


@given(st.lists(st.text(max_size=300), min_size=1, max_size=40, unique=True))
def test_names_of_others_stay_bounded_on_their_line_and_address_no_channel(
    names: list[str],
) -> None:
    days: Days = {("d", f"{name}@everyone"): used(f"{name}@everyone", 1, 0) for name in names}
    hostile = replace(WEEK, machines=(MachineWeek("m", days),))
    sent = message([digest_notice(hostile)], AT + 60, berlin)
    assert "@everyone" not in sent.body
    assert len(sent.body) <= BODY_CHARACTERS
    assert len(sent.body.splitlines()) < 40


def test_beside_alerts_a_digest_keeps_its_lines() -> None:
    sent = message([notice(HOT), digest_notice(WEEK), notice(LOST)], AT + 60, berlin)
    assert sent.title.startswith("CRITICAL 2 alerts")
    assert "\n\nfarm: week to " in sent.body
    assert "• bob: 20.0 GPU h" in sent.body
