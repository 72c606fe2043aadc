"""What the routes about reservations do, over a real book: for whom they are, and who may change
them."""

import itertools
import json
import os
import pwd
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from icalendar import Calendar

from andon.access.roles import Identity, Role
from andon.leases.book.lease_book import Book
from andon.leases.book.places import reservations_folders
from andon.leases.rules.icalendar import TYPE
from andon.model.device import Snapshot
from andon.model.lease import FURTHEST
from andon.web.answers.description import ANSWERS
from tests.integration.parts import need_root
from tests.support.described import check
from tests.support.replaced import answers
from tests.support.rows import rows
from tests.support.sharing_parts import gpu
from tests.support.snapshots import AT
from tests.support.web_parts import BEARER, OUTSIDE, Caller, Parts, served

HOUR = 3600.0
NOBODY = pwd.getpwuid(65_534)
PATH = "/api/reservations"


@pytest.fixture
def parts(tmp_path: Path, book: Book) -> Parts:
    return Parts(tmp_path, [Snapshot("node17", AT, devices=tuple(gpu(i) for i in range(4)))])


@pytest.fixture
def client(parts: Parts) -> Iterator[Caller]:
    with served(parts) as found:
        yield found


def key_of(parts: Parts, who: Identity) -> dict[str, str]:
    return {"Authorization": f"Bearer {parts.keys.exchange(parts.keys.new_code(who))}"}


def reserve(client: Caller, key: dict[str, str] = BEARER, **asked: object) -> dict[str, Any]:
    body = {"begins": time.time() + HOUR, "seconds": 2 * HOUR, **asked}
    answer = client.post(PATH, json=body, headers=key)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_reservation_is_made_moved_and_given_back(
    client: Caller, book: Book, parts: Parts
) -> None:
    made = reserve(client, gpus=2, name="paper")
    check(made, ANSWERS["post", PATH])
    assert (made["id"], len(made["devices"]), made["name"]) == ("r1", 2, "paper")
    assert [(one.id, one.uid) for one in book.reservations()] == [("r1", os.getuid())]
    listed = client.get(PATH).json()
    check(listed, ANSWERS["get", PATH])
    assert (listed["schema"], listed["reservations"]) == ("andon.reservations/1", [made])
    assert client.get("/api/leases").json()["reservations"] == [made], "with the leases, as live"
    later = made["begins"] + HOUR
    moved = client.request("PATCH", f"{PATH}/r1", json={"begins": later}, headers=BEARER)
    assert (moved.status_code, moved.json()["begins"]) == (200, later)
    assert moved.json()["ends"] == made["ends"] + HOUR, "it lasts as long as before"
    assert client.delete(f"{PATH}/r1", headers=BEARER).json()["id"] == "r1"
    assert book.reservations() == ()
    log = [json.loads(line) for line in parts.audit.path.read_text().splitlines()]
    asked = [line["action"] for line in log if line["event"] == "requested"]
    assert asked == ["reserve", "reserve", "unreserve"]
    assert [line["reservation"] for line in log if line["event"] == "done"] == ["r1", "r1", "r1"]


def test_weekly_ones_are_at_the_same_time_of_the_callers_clocks_and_all_or_none(
    client: Caller, book: Book
) -> None:
    now = datetime.now(ZoneInfo("Europe/Berlin"))
    days = (now + timedelta(days) for days in range(1, 400))
    change = next(day for day in days if day.utcoffset() != (day - timedelta(7)).utcoffset())
    begins = (change - timedelta(3)).replace(hour=18, minute=0, second=0, microsecond=0).timestamp()
    first = reserve(client, begins=begins, weekly=3, zone="Europe/Berlin")
    made = sorted(book.reservations(), key=lambda one: one.begins)
    assert [one.id for one in made] == ["r1", "r2", "r3"]
    assert first["id"] == "r1"
    shown = [datetime.fromtimestamp(one.begins, now.tzinfo).strftime("%a %H:%M") for one in made]
    assert len(set(shown)) == 1
    assert len({b.begins - a.begins for a, b in itertools.pairwise(made)}) == 2, "a DST change"
    for wrong, reason in (
        ({"zone": "Mars/Olympus"}, "zone: unknown time zone 'Mars/Olympus'"),
        ({"weekly": 54}, "weekly"),
        ({"weekly": 2, "devices": ["0", "1", "2", "3"], "gpus": 4}, "4 GPUs wanted"),
    ):
        body = {"begins": begins, "seconds": HOUR, **wrong}
        refused = client.post(PATH, json=body, headers=BEARER)
        assert 400 <= refused.status_code < 500, refused.text
        assert reason in refused.text
    assert len(book.reservations()) == 3, "nothing of what was refused"


def test_a_user_reserves_in_the_own_name_and_changes_only_that(
    client: Caller, book: Book, parts: Parts
) -> None:
    need_root()
    key = key_of(parts, Identity(Role.USER, NOBODY.pw_uid, NOBODY.pw_name))
    made = reserve(client, key)
    assert (made["user"], made["uid"]) == (NOBODY.pw_name, NOBODY.pw_uid)
    [file] = reservations_folders(book.path)[0].iterdir()
    assert file.stat().st_uid == NOBODY.pw_uid, "it is the file of who reserved"
    others = reserve(client, devices=["1"])["id"]
    for method, more in (("DELETE", {}), ("PATCH", {"json": {"seconds": HOUR}})):
        refused = client.request(method, f"{PATH}/{others}", headers=key, **more)
        assert refused.status_code == 403, refused.text
        assert refused.json()["error"]["reason"] == f"reservation {others} is root's"
    most = client.post(PATH, headers=key, json={"gpus": 3, "seconds": HOUR / 2})
    assert most.status_code == 403, "the usual limits are the user's, whoever runs the server"
    allowed = f"allows {NOBODY.pw_name} to reserve 2 GPUs of 4 at a time"
    assert allowed in most.json()["error"]["reason"]
    half = client.request("PATCH", f"{PATH}/r1", headers=key, json={"seconds": HOUR})
    assert half.json()["ends"] == made["begins"] + HOUR
    [file] = [one for one in reservations_folders(book.path)[0].iterdir() if one.name[:3] == "r1-"]
    assert file.stat().st_uid == NOBODY.pw_uid, "also the one that took its place"
    assert client.delete(f"{PATH}/r1", headers=key).status_code == 200


def test_a_server_of_another_user_reserves_nothing_in_its_own_name(
    client: Caller, book: Book, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reserve(client)
    answers(monkeypatch, os, "getuid", 4711)
    answers(monkeypatch, "andon.leases.network", "user_name", "erik")
    key = key_of(parts, Identity(Role.USER, NOBODY.pw_uid, NOBODY.pw_name))
    body = {"seconds": HOUR}
    asked = [("POST", PATH), ("PATCH", f"{PATH}/{made['id']}"), ("DELETE", f"{PATH}/{made['id']}")]
    for method, path in asked:
        refused = client.request(method, path, headers=key, json=body)
        assert refused.status_code == 403, refused.text
        problem = refused.json()["error"]
        assert problem["reason"].startswith("this server runs as erik and cannot ")
        assert problem["reason"].endswith(f" for {NOBODY.pw_name}")
        assert problem["hint"].startswith("in a terminal: andon reserve")
    assert [one.id for one in book.reservations()] == [made["id"]]


def test_without_a_key_nothing_is_reserved(client: Caller, book: Book) -> None:
    reserve(client)
    for method, path in (("POST", PATH), ("PATCH", f"{PATH}/r1"), ("DELETE", f"{PATH}/r1")):
        assert client.request(method, path, json={"seconds": HOUR}).status_code == 401
    assert len(book.reservations()) == 1
    assert client.get(PATH).status_code == 200


@rows(
    "body, status, reason",
    [
        ({}, 422, "a reservation needs one of seconds and ends"),
        ({"seconds": HOUR, "ends": FURTHEST}, 422, "seconds and ends cannot be combined"),
        ({"begins": AT, "seconds": HOUR}, 422, "a reservation cannot begin in the past"),
        ({"ends": AT}, 422, "a reservation ends after it begins"),
        ({"seconds": 0}, 422, ""),
        ({"begins": FURTHEST * 2, "seconds": HOUR}, 422, ""),
        ({"begins": "soon", "seconds": HOUR}, 422, ""),
        ({"seconds": HOUR, "gpus": 0}, 422, ""),
        ({"seconds": HOUR, "gpus": 9}, 503, ""),
        ({"seconds": HOUR, "priority": 1}, 422, ""),
        ({"seconds": HOUR, "name": "x" * 201}, 422, ""),
        ({"seconds": HOUR, "devices": ["no such"]}, 404, ""),
    ],
)
def test_nonsense_is_refused_in_one_sentence(
    client: Caller, book: Book, body: dict[str, Any], status: int, reason: str
) -> None:
    answer = client.post(PATH, json=body, headers=BEARER)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["reason"].startswith(reason)
    assert book.reservations() == ()


def test_a_change_needs_a_reservation_and_a_time(client: Caller) -> None:
    made = reserve(client, gpus=1)
    assert client.request("PATCH", f"{PATH}/r9", json={"seconds": 60}, headers=BEARER).status_code \
        == 404  # fmt: skip
    assert client.delete(f"{PATH}/r9", headers=BEARER).status_code == 404
    nothing = client.request("PATCH", f"{PATH}/{made['id']}", json={}, headers=BEARER)
    assert (nothing.status_code, nothing.json()["error"]["reason"]) == (422, "nothing is changed")
    other = reserve(client, devices=[str(made["devices"][0]["index"])], begins=made["ends"])
    late = {"ends": other["ends"]}
    overlap = client.request("PATCH", f"{PATH}/{made['id']}", json=late, headers=BEARER)
    assert overlap.status_code == 409, "no device is promised twice"
    assert f"({other['id']})" in overlap.json()["error"]["reason"]


def test_a_calendar_link_opens_the_own_reservations_until_it_is_ended(
    client: Caller, parts: Parts, tmp_path: Path
) -> None:
    need_root()
    key = key_of(parts, Identity(Role.USER, NOBODY.pw_uid, NOBODY.pw_name))
    reserve(client, key, name="own")
    reserve(client, devices=["3"], name="another's")
    assert client.post("/api/calendar").status_code == 401
    path = client.post("/api/calendar", headers=key).json()["path"]
    (tmp_path / "outside").mkdir()
    with served(Parts(tmp_path / "outside", [], OUTSIDE), "10.0.0.7", "node17") as outside:
        assert outside.get("/api/reservations").status_code == 401
        assert outside.get(path).status_code == 404, "the key of another server"
    found = client.get(path)
    assert found.headers["content-type"] == TYPE
    own = [str(one["SUMMARY"]) for one in Calendar.from_ical(found.text).walk("VEVENT")]
    assert own == [f"GPU 0 of node17, {NOBODY.pw_name}: own"]
    everyone = Calendar.from_ical(client.get(f"{path}?everyone=true").text)
    assert len(everyone.walk("VEVENT")) == 2
    header = {"Authorization": f"Bearer {path.removeprefix('/calendar/').removesuffix('.ics')}"}
    assert client.get("/api/reservations", headers=header).status_code == 401
    assert client.delete("/api/calendar", headers=key).json() == {"ended": True}
    assert client.get(path).status_code == 404
    assert client.delete("/api/calendar", headers=key).status_code == 404
