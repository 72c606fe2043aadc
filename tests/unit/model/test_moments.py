"""Times as people write them: what each text means, said at one moment in one zone."""

import re
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from andon.cli.main import run
from andon.errors import Invalid
from andon.host.clock import offset
from andon.settings.moments import FORMS, FURTHEST, parse_moment, weekly
from tests.conftest import REPOSITORY
from tests.support.rows import rows

BERLIN = "Europe/Berlin"
NOW = "2025-11-19 10:20:30"  # a Wednesday


def stamp(wall: str, zone: str = BERLIN, fold: int = 0) -> float:
    return datetime.fromisoformat(wall).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def local(
    text: str, now: str = NOW, future: bool = False, zone: str = BERLIN, fold: int = 0
) -> str:
    found = parse_moment(text, stamp(now, zone, fold), offset(zone), future)
    there = datetime.fromtimestamp(found, ZoneInfo(zone))
    return there.strftime("%a %Y-%m-%d %H:%M:%S") + ("'" if there.fold else "")


@rows("text, expected", [
    ("now", "Wed 2025-11-19 10:20:30"),
    ("90m", "Wed 2025-11-19 08:50:30"),
    ("1h30m", "Wed 2025-11-19 08:50:30"),
    (" 2D ", "Mon 2025-11-17 10:20:30"),
    ("0", "Wed 2025-11-19 10:20:30"),
    ("2 days ago", "Mon 2025-11-17 10:20:30"),
    ("2d ago", "Mon 2025-11-17 10:20:30"),
    ("an hour ago", "Wed 2025-11-19 09:20:30"),
    ("a week ago", "Wed 2025-11-12 10:20:30"),
    ("4 weeks", "Wed 2025-10-22 11:20:30"),  # the clocks went back between
    ("1 minute 30 seconds ago", "Wed 2025-11-19 10:19:00"),
    ("in 2h", "Wed 2025-11-19 12:20:30"),
    ("22:00", "Tue 2025-11-18 22:00:00"),
    ("9:00", "Wed 2025-11-19 09:00:00"),
    ("10:20:30", "Wed 2025-11-19 10:20:30"),
    ("10:20:31", "Tue 2025-11-18 10:20:31"),
    ("9am", "Wed 2025-11-19 09:00:00"),
    ("10 pm", "Tue 2025-11-18 22:00:00"),
    ("at 10:30 PM", "Tue 2025-11-18 22:30:00"),
    ("12am", "Wed 2025-11-19 00:00:00"),
    ("12pm", "Tue 2025-11-18 12:00:00"),
    ("noon", "Tue 2025-11-18 12:00:00"),
    ("midnight", "Wed 2025-11-19 00:00:00"),
    ("today", "Wed 2025-11-19 00:00:00"),
    ("yesterday", "Tue 2025-11-18 00:00:00"),
    ("Tomorrow", "Thu 2025-11-20 00:00:00"),
    ("today 9:00", "Wed 2025-11-19 09:00:00"),
    ("today 22:00", "Wed 2025-11-19 22:00:00"),
    ("yesterday at 22:00", "Tue 2025-11-18 22:00:00"),
    ("22:00 yesterday", "Tue 2025-11-18 22:00:00"),
    ("yesterday noon", "Tue 2025-11-18 12:00:00"),
    ("last night", "Tue 2025-11-18 18:00:00"),
    ("Last  Night", "Tue 2025-11-18 18:00:00"),
    ("Fri 18:00", "Fri 2025-11-14 18:00:00"),
    ("friday, 18:00", "Fri 2025-11-14 18:00:00"),
    ("18:00 on Fri", "Fri 2025-11-14 18:00:00"),
    ("thurs", "Thu 2025-11-13 00:00:00"),
    ("Wed", "Wed 2025-11-19 00:00:00"),
    ("Wed 10:00", "Wed 2025-11-19 10:00:00"),
    ("Wed 11:00", "Wed 2025-11-12 11:00:00"),
    ("last Wed", "Wed 2025-11-12 00:00:00"),
    ("last Wed 11:00", "Wed 2025-11-12 11:00:00"),
    ("next Mon", "Mon 2025-11-24 00:00:00"),
    ("15 Nov", "Sat 2025-11-15 00:00:00"),
    ("Nov 15, 03:00", "Sat 2025-11-15 03:00:00"),
    ("15 Nov 03:00", "Sat 2025-11-15 03:00:00"),
    ("25 December", "Wed 2024-12-25 00:00:00"),
    ("29 Feb", "Thu 2024-02-29 00:00:00"),
    ("15 Nov 2023 03:00:05", "Wed 2023-11-15 03:00:05"),
    ("2025-11-15", "Sat 2025-11-15 00:00:00"),
    ("2025-11-15 9:00", "Sat 2025-11-15 09:00:00"),
    ("2025-11-15 03:00:07", "Sat 2025-11-15 03:00:07"),
    ("2025-11-15t03:00", "Sat 2025-11-15 03:00:00"),
    ("2025-07-15T03:00", "Tue 2025-07-15 03:00:00"),
    ("2025-11-15T03:00Z", "Sat 2025-11-15 04:00:00"),
    ("2025-11-15T03:00:00.000Z", "Sat 2025-11-15 04:00:00"),
    ("2025-11-15 03:00:00-05:00", "Sat 2025-11-15 09:00:00"),
    ("2099-01-01", "Thu 2099-01-01 00:00:00"),
    ("1763175600", "Sat 2025-11-15 04:00:00"),
    ("1763175600.25", "Sat 2025-11-15 04:00:00"),
    ("@1763175600", "Sat 2025-11-15 04:00:00"),
    ("@0", "Thu 1970-01-01 01:00:00"),
])  # fmt: skip
def test_a_time_that_was(text: str, expected: str) -> None:
    assert local(text) == expected


@rows("text, expected", [
    ("2h", "Wed 2025-11-19 12:20:30"),
    ("in 2 hours", "Wed 2025-11-19 12:20:30"),
    ("22:30", "Wed 2025-11-19 22:30:00"),
    ("9:00", "Thu 2025-11-20 09:00:00"),
    ("10:20:30", "Thu 2025-11-20 10:20:30"),
    ("midnight", "Thu 2025-11-20 00:00:00"),
    ("noon", "Wed 2025-11-19 12:00:00"),
    ("today 22:00", "Wed 2025-11-19 22:00:00"),
    ("tomorrow", "Thu 2025-11-20 00:00:00"),
    ("tomorrow 8am", "Thu 2025-11-20 08:00:00"),
    ("Fri 18:00", "Fri 2025-11-21 18:00:00"),
    ("Wed", "Wed 2025-11-26 00:00:00"),
    ("Wed 11:00", "Wed 2025-11-19 11:00:00"),
    ("next Wed 11:00", "Wed 2025-11-26 11:00:00"),
    ("15 Nov", "Sun 2026-11-15 00:00:00"),
    ("29 Feb 6:00", "Tue 2028-02-29 06:00:00"),
    ("2020-01-01", "Wed 2020-01-01 00:00:00"),  # a job file of last year starts at once
    ("1 Jan 2020", "Wed 2020-01-01 00:00:00"),
    ("@1763175600", "Sat 2025-11-15 04:00:00"),
    ("now", "Wed 2025-11-19 10:20:30"),
])  # fmt: skip
def test_a_time_to_come(text: str, expected: str) -> None:
    assert local(text, future=True) == expected


SPRING, AUTUMN = "2025-03-30 10:00", "2025-10-26 10:00"  # 2:00 to 3:00 is skipped, and comes twice


@rows("text, now, future, fold, expected", [
    ("2:30", SPRING, False, 0, "Sun 2025-03-30 03:30:00"),
    ("2:30", "2025-03-29 10:00", True, 0, "Sun 2025-03-30 03:30:00"),
    ("2025-03-30T02:30", SPRING, False, 0, "Sun 2025-03-30 03:30:00"),
    ("today", SPRING, False, 0, "Sun 2025-03-30 00:00:00"),
    ("yesterday 22:00", SPRING, False, 0, "Sat 2025-03-29 22:00:00"),
    ("24h", SPRING, False, 0, "Sat 2025-03-29 09:00:00"),
    ("2:30", AUTUMN, False, 0, "Sun 2025-10-26 02:30:00'"),
    ("2:30", "2025-10-26 02:45", False, 0, "Sun 2025-10-26 02:30:00"),
    ("2:30", "2025-10-26 02:15", False, 1, "Sun 2025-10-26 02:30:00"),
    ("2:30", "2025-10-26 02:45", True, 0, "Sun 2025-10-26 02:30:00'"),
    ("2:30", "2025-10-25 10:00", True, 0, "Sun 2025-10-26 02:30:00"),
    ("today 2:30", AUTUMN, False, 0, "Sun 2025-10-26 02:30:00"),
    ("2025-10-26 02:30", AUTUMN, False, 0, "Sun 2025-10-26 02:30:00"),
    ("last night", AUTUMN, False, 0, "Sat 2025-10-25 18:00:00"),
    ("Sun", AUTUMN, False, 0, "Sun 2025-10-26 00:00:00"),
])  # fmt: skip
def test_days_on_which_the_clocks_change(
    text: str, now: str, future: bool, fold: int, expected: str
) -> None:
    assert local(text, now, future, fold=fold) == expected


def test_a_day_may_begin_later_than_midnight() -> None:
    assert local("today", "2018-11-04 10:00", zone="America/Sao_Paulo") == "Sun 2018-11-04 01:00:00"
    assert local("2011-12-30", "2012-01-05", zone="Pacific/Apia") == "Sat 2011-12-31 00:00:00"


@rows("text", [
    "", " ", "soon", "25:00", "22:60", "13pm", "0am", "22", "3 30", "last", "next", "ago", "in",
    "2 days ago yesterday", "in 2h ago", "yesterday today", "last yesterday", "fr", "m",
    "31 Nov 2025", "30 Feb", "32 Dec", "2025-13-01", "2025-11-15T25:00", "0000-01-01", "1960-01-01",
    "9999-12-31", "9999-12-31T23:59:59-12:00", "3001-01-01", "1763175600000", "@99999999999999",
    "@", "-2h", "1e9", "nan", "inf", "99999999999999h", "9" * 5000, "9" * 400 + "d", "36601d",
    "yesterday 22:00 23:00", "2h 22:00", "\x1b[31m22:00", "٢٢:٠٠", "2025-11-15T03:00 CET",
    "noon noon 1", "month", "1 month", "1000 years ago", "22:00" + " " * 100,
])  # fmt: skip
def test_what_is_no_time_is_refused_in_one_line_with_examples(text: str) -> None:
    for future in (False, True):
        with pytest.raises(ValueError) as told:
            parse_moment(text, stamp(NOW), offset(BERLIN), future)
        said = str(told.value)
        assert "use " in said
        assert len(said) < 200
        assert said.isprintable()


@rows("text", ["yesterday", "last night", "2 days ago", "today 9:00", "last Fri"])
def test_what_was_is_no_time_to_come(text: str) -> None:
    with pytest.raises(ValueError, match="is in the past: use 2h, 22:30"):
        local(text, future=True)


ZONES = ("UTC", BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia")
instants = st.integers(86_400 * 4, int(FURTHEST / 8)).map(float)
zones = st.sampled_from(ZONES)


@given(at=instants, now=instants, zone=zones, future=st.booleans())
def test_what_is_printed_is_read_again(at: float, now: float, zone: str, future: bool) -> None:
    there = datetime.fromtimestamp(at, ZoneInfo(zone))
    ahead = offset(zone)
    for text in (there.isoformat(), there.isoformat(" "), f"@{at:.0f}"):
        assert parse_moment(text, now, ahead, future) == at
    assume(not there.fold)  # without its zone, of two the first
    for text in (there.replace(tzinfo=None).isoformat(), there.strftime("%d %b %Y %H:%M:%S")):
        assert parse_moment(text, now, ahead, future) == at


@given(now=instants, zone=zones, hour=st.integers(0, 23), minute=st.integers(0, 59))
@example(now=stamp("2025-10-26 02:30"), zone=BERLIN, hour=2, minute=30)
def test_a_time_of_day_is_the_nearest_one_on_either_side(
    now: float, zone: str, hour: int, minute: int
) -> None:
    text, ahead = f"{hour}:{minute:02}", offset(zone)
    last, coming = (parse_moment(text, now, ahead, future) for future in (False, True))
    assert last <= now < coming
    assert coming - last <= 2 * 86_400 + 7200  # Apia left out a day
    for at in (last, coming):
        there = datetime.fromtimestamp(at, ZoneInfo(zone))
        skipped = datetime.fromtimestamp(at - 86_400, ZoneInfo(zone)).utcoffset()
        assert (there.hour, there.minute) == (hour, minute) or there.utcoffset() != skipped


@given(now=instants, zone=zones, seconds=st.integers(0, 86_400 * 3))
def test_a_duration_is_as_far_on_either_side(now: float, zone: str, seconds: int) -> None:
    ahead = offset(zone)
    assert parse_moment(f"{seconds}s", now, ahead) == now - seconds
    assert parse_moment(f"{seconds}s", now, ahead, future=True) == now + seconds
    assert parse_moment(f"{seconds} seconds ago", now, ahead) == now - seconds


words = st.sampled_from([
    "now", "today", "yesterday", "tomorrow", "last", "next", "night", "fri", "nov", "15", "22:00",
    "2025-11-15", "ago", "in", "2h", "am", "pm", "at", "@", "9",
])  # fmt: skip


@given(text=st.text(max_size=30) | st.lists(words, max_size=4).map(" ".join), future=st.booleans())
def test_any_text_is_a_time_or_refused(text: str, future: bool) -> None:
    with suppress(ValueError):
        assert 0 <= parse_moment(text, stamp(NOW), offset(BERLIN), future) <= FURTHEST


def test_every_form_of_the_docs_is_one() -> None:
    lines = [
        f"| {', '.join(f'`{example}`' for example in examples)} | {meaning} |"
        for examples, meaning in FORMS
    ]
    page = (REPOSITORY / "docs/history.md").read_text("utf-8")
    assert "\n".join(("| a time | what it means |", "|---|---|", *lines)) in page
    for examples, _ in FORMS:
        for text in examples:
            local(text)


@rows("arguments", [
    ["history", "--since"], ["history", "--until"], ["who", "--since"], ["runs", "--since"],
    ["audit", "--since"], ["alerts", "--since"], ["submit", "--begin"],
    ["alerts", "silence", "thermal@3", "--until"],
])  # fmt: skip
def test_every_option_that_is_a_time_has_the_same_forms(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "a fortnight hence"]) in (2, 125)
    told = capsys.readouterr().err
    assert "'a fortnight hence' is not a time: use 2h, 22:" in told
    assert "'Fri 18:00'" in told


@rows("text, refused", [
    ("2026-03-29 02:30", "does not exist: the clocks skip it; use 2026-03-29T03:30"),
    ("2026-10-25 02:30", "comes twice: the clocks go back; use 2026-10-25T02:30+02:00 or"),
    ("2026-10-25T02:30+01:00", ""),
    ("2026-03-29 03:30", ""),
    ("2h", ""),
    ("Fri 18:00", ""),
])  # fmt: skip
def test_an_exact_time_is_shown_once_by_local_clocks(text: str, refused: str) -> None:
    if not refused:
        assert parse_moment(text, stamp(NOW), offset(BERLIN), True, exact=True) > stamp(NOW)
        return
    with pytest.raises(ValueError, match=re.escape(refused)):
        parse_moment(text, stamp(NOW), offset(BERLIN), True, exact=True)


def test_every_week_local_clocks_show_the_same_time() -> None:
    clock = offset(BERLIN)
    at, end = stamp("2026-03-26 18:00"), stamp("2026-03-29 18:00")
    assert weekly(at, end, 1, clock, True) == [(at, end)]
    lasts = end - at
    [_, second] = weekly(at, end, 2, clock, False)
    assert second == (stamp("2026-04-02 18:00"), stamp("2026-04-02 18:00") + lasts)
    assert weekly(at, end, 2, clock, True)[1] == (second[0], stamp("2026-04-05 18:00"))


@rows(
    "begins, ends, by_clock, refused",
    [
        ("2026-03-22 02:30", "2026-03-22 05:00", False, "Sun 29 Mar 02:30 does not exist"),
        ("2026-03-22 01:30", "2026-03-22 02:30", True, "Sun 29 Mar 02:30 does not exist"),
        ("2026-10-18 02:30", "2026-10-18 05:00", False, "Sun 25 Oct 02:30 comes twice"),
        ("2026-10-18 01:30", "2026-10-18 02:30", True, "Sun 25 Oct 02:30 comes twice"),
        ("2026-03-22 01:30", "2026-03-22 02:30", False, ""),  # an hour, whatever clocks show
    ],
)
def test_a_week_whose_time_clocks_skip_or_repeat_is_refused(
    begins: str, ends: str, by_clock: bool, refused: str
) -> None:
    times = stamp(begins), stamp(ends), 3, offset(BERLIN), by_clock
    if not refused:
        assert [end - begin for begin, end in weekly(*times)] == [3600.0] * 3
        return
    with pytest.raises(Invalid, match=refused):
        weekly(*times)
