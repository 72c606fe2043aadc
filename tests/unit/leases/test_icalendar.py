"""Reservations as iCalendar, read by another program's parser, and the keys that open them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import icalendar
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.errors import Unavailable
from andon.leases.rules.icalendar import LONGEST_LINE, calendar
from andon.model.lease import Reservation, ReservedDevice
from andon.web.transport.calendar_keys import NAME, CalendarKeys

AT = 1_790_000_000.0
DEVICES = tuple(ReservedDevice(f"g{n}", n) for n in (0, 4, 5, 6))


def reserved(name: str, user: str = "alice", begins: float = AT + 3600) -> Reservation:
    return Reservation("r7", DEVICES, begins, begins + 7200, name, uid=7, user=user)


def test_an_event_says_who_what_and_when_in_utc() -> None:
    text = calendar([reserved("camera-ready")], "n17", AT)
    found = icalendar.Calendar.from_ical(text)
    [event] = found.walk("VEVENT")
    assert event["SUMMARY"] == "GPU 0, 4–6 of n17, alice: camera-ready"
    assert event["UID"] == "r7-7-n17@andon"
    assert event.decoded("DTSTART") == datetime.fromtimestamp(AT + 3600, UTC)
    assert event.decoded("DTEND") == datetime.fromtimestamp(AT + 10_800, UTC)
    assert "DTSTART:20260921T" in text
    empty = icalendar.Calendar.from_ical(calendar([], "n17", AT))
    assert (empty["X-WR-CALNAME"], empty.walk("VEVENT")) == ("GPUs of n17", [])


@given(st.text(max_size=300), st.text(max_size=60))
def test_whatever_a_name_is_it_stays_one_event(name: str, user: str) -> None:
    name, user = (one.encode(errors="replace").decode() for one in (name, user))
    text = calendar([reserved(name, user), reserved("after")], "n17", AT)
    assert all(len(line.encode()) <= LONGEST_LINE for line in text.split("\r\n"))
    assert "\n" not in text.replace("\r\n", "")
    first, second = icalendar.Calendar.from_ical(text).walk("VEVENT")
    plain = "".join(
        c if c.isprintable() else " " for c in f", {user}" + (f": {name}" if name else "")
    )
    assert first["SUMMARY"] == f"GPU 0, 4–6 of n17{plain}"
    assert str(second["SUMMARY"]).endswith(": after")


def test_a_key_opens_one_persons_calendar_until_another_is_made(tmp_path: Path) -> None:
    names = {7: "alice", 8: "bob"}
    keys = CalendarKeys(tmp_path, names.get)
    first, other = keys.make(7, "alice"), keys.make(8, "bob")
    assert (keys.owner(first), keys.owner(other), keys.owner("x")) == (7, 8, None)
    second = keys.make(7, "alice")
    assert (keys.owner(first), keys.owner(second), keys.owner(other)) == (None, 7, 8)
    assert second not in (tmp_path / NAME).read_text(), "only its hash is stored"
    later = CalendarKeys(tmp_path, names.get)  # after a restart
    assert later.owner(second) == 7
    names[7] = "dora"  # the account is another person's now
    assert later.owner(second) is None
    assert (later.revoke(7), later.revoke(7), later.owner(other)) == (True, False, 8)
    assert CalendarKeys(tmp_path, names.get).owner(second) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": [1]}', json.dumps("x" * 9)])
def test_a_file_that_is_damaged_opens_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    keys = CalendarKeys(tmp_path, {7: "alice"}.get)
    assert keys.owner("x") is None
    assert keys.owner(keys.make(7, "alice")) == 7


def test_a_key_that_cannot_be_stored_is_not_given(tmp_path: Path) -> None:
    keys = CalendarKeys(tmp_path, {7: "alice"}.get)
    first = keys.make(7, "alice")
    (tmp_path / NAME).unlink()
    tmp_path.rmdir()
    with pytest.raises(Unavailable, match=r"calendars\.json cannot be written"):
        keys.make(7, "alice")
    with pytest.raises(Unavailable):
        keys.revoke(7)
    assert keys.owner(first) == 7, "what was not written has not happened"
