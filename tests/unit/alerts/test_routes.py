"""Who is told, and when: levels, rules, devices, owners, quiet hours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.alerts.rules.routes import Route, concerns, due
from andon.model.alert import Level, Notice, NoticeKind
from andon.settings.moments import QuietHours, parse_quiet
from tests.support.route_parts import DAY, HOT, HOUR, MIDNIGHT, utc
from tests.support.rows import rows


def notice(
    level: Level = Level.WARNING, kind: NoticeKind = NoticeKind.FIRING, at: float = MIDNIGHT
) -> Notice:
    return Notice("n1", kind, replace(HOT, level=level), at)


@rows(
    ("route", "told"),
    [
        (Route("a"), True),
        (Route("a", level=Level.CRITICAL), False),
        (Route("a", rules=("thermal", "fan")), True),
        (Route("a", rules=("fan",)), False),
        (Route("a", devices=("3",)), True),
        (Route("a", devices=("1",)), False),
        (Route("a", devices=("GPU-",)), True),
        (Route("a", devices=("GPU-2",)), False),
        (Route("a", owners=("bob", "ada")), True),
        (Route("a", owners=("bob",)), False),
    ],
)
def test_a_notifier_hears_what_is_for_it(route: Route, told: bool) -> None:
    assert concerns(route, HOT) is told


def test_information_is_for_nobody() -> None:
    assert not concerns(Route("a", level=Level.INFO), replace(HOT, level=Level.INFO))


def test_information_goes_to_whom_it_is_about_and_to_nobody_else() -> None:
    ahead = replace(
        HOT, rule="reservation_ahead", level=Level.INFO, evidence={"reserved_by": "alice"}
    )
    assert concerns(Route("a", informs=("alice",)), ahead)
    assert not concerns(Route("a", informs=("bob",)), ahead)
    assert not concerns(Route("a", owners=("alice",)), ahead)
    assert not concerns(Route("a", rules=("thermal",), informs=("alice",)), ahead)
    assert not concerns(Route("a", informs=("alice",), owners=("bob",)), replace(HOT, affected=()))


def test_nobody_is_told_through_the_notifier_that_fails() -> None:
    broken = replace(HOT, rule="notifier", subject="notifier:phone", device=None)
    assert not concerns(Route("phone"), broken)
    assert concerns(Route("mail"), broken)


def test_what_is_about_no_device_is_not_for_a_route_by_device() -> None:
    assert not concerns(Route("a", devices=("0",)), replace(HOT, device=None, subject="node"))


@pytest.mark.parametrize(
    ("text", "quiet"),
    [("22:00-07:00", QuietHours(1320, 420)), (" 1:05 - 2:10 ", QuietHours(65, 130)), ("", None)],
)
def test_quiet_hours_are_read(text: str, quiet: QuietHours | None) -> None:
    assert parse_quiet(text) == quiet


@pytest.mark.parametrize("text", ["22-7", "25:00-07:00", "22:60-07:00", "night", "07:00-07:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_quiet(text)


NIGHT = Route("a", quiet=QuietHours(22 * 60, 7 * 60))


@pytest.mark.parametrize(
    ("hour", "told_at"),
    [(21.99, 21.99), (22.0, 31.0), (23.5, 31.0), (24.0, 31.0), (30.99, 31.0), (31.0, 31.0)],
)
def test_quiet_hours_over_midnight_hold_back_until_they_end(hour: float, told_at: float) -> None:
    found = due(NIGHT, notice(), MIDNIGHT + hour * HOUR, utc)
    assert found == MIDNIGHT + told_at * HOUR


def test_quiet_hours_within_a_day() -> None:
    lunch = Route("a", quiet=QuietHours(12 * 60, 13 * 60))
    assert due(lunch, notice(), MIDNIGHT + 12.5 * HOUR, utc) == MIDNIGHT + 13 * HOUR
    assert due(lunch, notice(), MIDNIGHT + 13 * HOUR, utc) == MIDNIGHT + 13 * HOUR
    assert due(lunch, notice(), MIDNIGHT + 2 * HOUR, utc) == MIDNIGHT + 2 * HOUR


def test_they_are_local() -> None:
    ahead = 9 * HOUR  # 14:00 UTC is 23:00 there
    at = MIDNIGHT + 14 * HOUR
    assert due(NIGHT, notice(), at, lambda _: ahead) == at + 8 * HOUR


def test_what_is_critical_wakes_people_unless_told_otherwise() -> None:
    at = MIDNIGHT + 3 * HOUR
    assert due(NIGHT, notice(Level.CRITICAL), at, utc) == at
    assert (
        due(replace(NIGHT, bypass_quiet_hours=None), notice(Level.CRITICAL), at, utc)
        == MIDNIGHT + 7 * HOUR
    )
    assert due(replace(NIGHT, bypass_quiet_hours=Level.WARNING), notice(), at, utc) == at


def test_good_news_wakes_nobody() -> None:
    found = due(NIGHT, notice(Level.CRITICAL, NoticeKind.RESOLVED), MIDNIGHT, utc)
    assert found == MIDNIGHT + 7 * HOUR


def test_a_test_is_always_told() -> None:
    strict = Route("a", level=Level.CRITICAL, rules=("fan",), quiet=QuietHours(0, 1439))
    assert due(strict, notice(Level.INFO, NoticeKind.TEST), MIDNIGHT, utc) == MIDNIGHT


def test_on_the_night_of_the_change_to_summer_time_they_end_by_the_clock_on_the_wall() -> None:
    change = MIDNIGHT + 2 * HOUR  # local 03:00 becomes 04:00

    def zone(at: float) -> float:
        return HOUR if at < change else 2 * HOUR

    at = MIDNIGHT - HOUR  # local midnight
    end = due(NIGHT, notice(), at, zone)
    assert end is not None
    assert (end + zone(end)) % DAY == 7 * HOUR
    assert end - at == 6 * HOUR, "the night is an hour shorter"


@given(
    begin=st.integers(0, 1439),
    end=st.integers(0, 1439),
    second=st.integers(0, 3 * 86_400),
    zone=st.integers(-14, 14),
)
def test_quiet_hours_always_end_within_a_day_and_are_over_then(
    begin: int, end: int, second: int, zone: int
) -> None:
    if begin == end:
        return
    quiet = QuietHours(begin, end)
    at = MIDNIGHT + second

    def offset(_at: float) -> float:
        return zone * HOUR

    if quiet.holds(at, offset):
        over = quiet.ends(at, offset)
        assert at < over <= at + DAY
        assert not quiet.holds(over, offset)
        assert quiet.holds(over - 1, offset)
