"""What the routes about alerts say and do: the list, the board, the rules, and what is changed."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from andon.access.audit_trail import audit_rows
from andon.access.roles import BLIND
from andon.alerts.rules.lamps import board
from andon.alerts.rules.rule_page import RuleContext, rule_list, rule_page
from andon.errors import Unavailable
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.conditions.rulebook import Rulebook
from andon.leases.rules.occupants import Holder
from andon.leases.rules.verdict import verdicts
from andon.model.alert import Alert, AlertList
from andon.model.codec import document, read_document, read_valid, to_json
from andon.model.device import Snapshot
from andon.model.event import Event, EventKind, Party
from andon.model.lease import Lease, LeaseKind, LeaseState, Share
from andon.model.verdict import DeviceVerdict
from andon.node.audit_file import NAME
from andon.node.seen.sights import alert_seen_by
from andon.web.answers.alert_payloads import (
    alert_page,
    shown_board,
)
from tests.support import alert_pages
from tests.support import snapshots as drawn
from tests.support.replaced import answers, fails
from tests.support.sharing_parts import capacities_of, claim, owner
from tests.support.snapshots import AT, assert_golden
from tests.support.web_parts import BEARER, Caller, Parts, served


def troubled() -> Snapshot:
    """The farm at this moment, and two devices that have just reported an error."""
    now, secret = time.time(), Party(77, "alice", "python", "python train.py")
    events = (
        Event(EventKind.XID, drawn.uuid(2), now, 79, who=(secret,)),
        Event(EventKind.XID, drawn.uuid(1), now, 31),
    )
    return replace(drawn.farm(), at=now, events=events)


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    made = Parts(tmp_path, [troubled()])
    while sum(alert.rule == "xid" for alert in made.watcher.alerts()) < 2:
        time.sleep(0.005)
    return made


@pytest.fixture
def client(parts: Parts) -> Iterator[Caller]:
    with served(parts) as found:
        yield found


def ids(client: Caller, **asked: str) -> list[str]:
    answer = client.get("/api/alerts", params=asked)
    assert answer.status_code == 200, answer.text
    return [alert["id"] for alert in answer.json()["alerts"]]


def first(client: Caller) -> str:
    return ids(client, rule="xid")[0]


def at(number: str, tail: str = "") -> str:
    return f"/api/alerts/{quote(number, safe='')}{tail}"


def test_the_list_has_what_fires_first_and_says_how_bad_it_is(client: Caller) -> None:
    said = client.get("/api/alerts").json()
    assert (said["schema"], said["worst"], said["note"]) == ("andon.alerts/1", "critical", None)
    states = [alert["state"] for alert in said["alerts"]]
    assert states == sorted(states, key=("firing", "pending", "resolved").index)
    top = said["alerts"][0]
    assert (top["rule"], top["device"], top["level"]) == ("xid", 2, "critical")
    assert "Xid 79" in top["message"]
    found = read_document(AlertList, said)
    assert len(found.alerts) == len(said["alerts"])
    assert found.silences == ()


def test_the_list_can_be_narrowed(client: Caller) -> None:
    assert len(ids(client, rule="xid")) == 2
    assert len(ids(client, rule="xid", level="critical")) == 1
    assert len(ids(client, rule="xid", device="2")) == 1
    assert ids(client, rule="xid", device=drawn.uuid(2)) == ids(client, rule="xid", device="2")
    assert ids(client, state="resolved") == []
    assert ids(client, device="GPU-of-long-ago") == []
    assert ids(client, limit="1") == ids(client)[:1]
    assert client.get("/api/alerts", params={"device": "99"}).status_code == 404
    assert client.get("/api/alerts", params={"level": "loud"}).status_code == 422


def test_command_lines_are_for_those_with_the_token(client: Caller) -> None:
    number = first(client)
    for route in ("/api/alerts", at(number)):
        assert "train.py" not in client.get(route).text
    alert = client.get(at(number), headers=BEARER).json()
    shown = alert_seen_by(BLIND, read_valid(Alert, alert))
    assert all(party.command is None for party in shown.affected)


def test_one_alert_is_found_by_its_id_and_another_is_gone(client: Caller) -> None:
    number = first(client)
    assert client.get(at(number)).json()["id"] == number
    answer = client.get(at("thermal@nowhere#1"))
    assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "gone")


def test_seeing_needs_the_token_and_is_written_down(client: Caller, parts: Parts) -> None:
    number = first(client)
    body = {"by": "alice", "note": "on my way"}
    assert client.post(at(number, "/acknowledge"), json=body).status_code == 401
    said = client.post(at(number, "/acknowledge"), json=body, headers=BEARER).json()
    assert (said["acknowledged"]["by"], said["acknowledged"]["note"]) == ("alice", "on my way")
    log = parts.audit.path.read_text().splitlines()
    assert parts.audit.path.name == NAME
    assert [json.loads(line)["event"] for line in log] == ["requested", "done"]
    assert json.loads(log[0])["path"].endswith("/acknowledge")
    again = client.delete(at(number, "/acknowledge"), headers=BEARER)
    assert again.json()["acknowledged"] is None
    twice = client.delete(at(number, "/acknowledge"), headers=BEARER)
    assert (twice.status_code, twice.json()["error"]["kind"]) == (409, "conflict")
    gone = client.post(at("xid@nobody#1", "/acknowledge"), json={}, headers=BEARER)
    assert gone.status_code == 404


def test_a_silence_hushes_what_it_names_until_it_is_ended(client: Caller, parts: Parts) -> None:
    body = {"rule": "xid", "device": 2, "seconds": 7200, "by": "bob", "note": "known"}
    assert client.post("/api/silences", json=body).status_code == 401
    made = client.post("/api/silences", json=body, headers=BEARER).json()
    assert made["subject"] == drawn.uuid(2)
    assert made["until"] == pytest.approx(time.time() + 7200, abs=60)
    noted = audit_rows(parts.audit.path.read_text().splitlines())[-1]
    assert (noted.action, noted.subject) == ("silence", f"{made['id']} xid@{drawn.uuid(2)}")
    assert [one["id"] for one in client.get("/api/silences").json()["silences"]] == [made["id"]]
    hushed = {
        alert["device"]: alert["silenced_until"]
        for alert in client.get("/api/alerts", params={"rule": "xid"}).json()["alerts"]
    }
    assert hushed == {2: made["until"], 1: None}
    assert client.delete(f"/api/silences/{made['id']}").status_code == 401
    assert client.delete(f"/api/silences/{made['id']}", headers=BEARER).json() == {"ended": True}
    assert client.delete(f"/api/silences/{made['id']}", headers=BEARER).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"seconds": 0},
        {"seconds": 1e12},
        {"seconds": "long"},
        {"seconds": 60, "rule": "no_such_rule"},
        {"seconds": 60, "device": 0, "subject": "store"},
        {"seconds": 60, "more": 1},
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(client: Caller, body: dict[str, Any]) -> None:
    answer = client.post("/api/silences", json=body, headers=BEARER)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "invalid")


def test_without_a_notifier_a_test_says_so(client: Caller) -> None:
    said = client.post("/api/alerts/test", json={}, headers=BEARER).json()
    assert said["results"] == []
    assert "andon alerts notify add slack URL" in said["note"]
    named = client.post("/api/alerts/test", json={"notifier": "phone"}, headers=BEARER)
    assert named.status_code == 404


def test_the_rules_tell_the_threshold_of_each_device(client: Caller) -> None:
    rules = {rule["name"]: rule for rule in client.get("/api/alerts/rules").json()["rules"]}
    assert rules["thermal"]["threshold"] == 80.0
    assert rules["thermal"]["devices"][0]["limit"] == 92
    assert (rules["high_usage"]["threshold"], rules["high_usage"]["unit"]) == (50.0, "percent")
    assert rules["squatter"]["active"] is False
    assert rules["squatter"]["inactive_reason"]


def test_one_rule_is_told_in_full_and_an_unknown_one_by_what_may_be_meant(client: Caller) -> None:
    said = client.get("/api/alerts/rules/thermal").json()
    assert (said["schema"], said["group"], said["label"]) == ("andon.rule/1", "heat", "too hot")
    assert said["figures"][0]["setting"] == "alerts.thermal_celsius"
    assert said["devices"][0]["limit"] == 92
    assert said["queries"][0]["alert"] == "AndonThermalShown"
    missing = client.get("/api/alerts/rules/termal")
    assert missing.status_code == 404
    assert missing.json()["error"]["hint"] == "did you mean thermal?"


def test_the_board_has_a_lamp_for_every_device_and_a_headline(client: Caller) -> None:
    said = client.get("/api/board").json()
    assert said["schema"] == "andon.board/1"
    assert said["lamp"] == "red"
    assert said["headline"]
    lamps = {one["uuid"]: one for one in said["devices"]}
    assert (lamps[drawn.uuid(2)]["lamp"], lamps[drawn.uuid(1)]["lamp"]) == ("red", "green")
    assert first(client) in lamps[drawn.uuid(2)]["alerts"]


@pytest.mark.parametrize(("key", "program"), [({}, "python"), (BEARER, "train.py")])
def test_the_headline_names_a_script_only_to_who_may_see_the_command(
    client: Caller, parts: Parts, monkeypatch: pytest.MonkeyPatch, key: Any, program: str
) -> None:
    who = (Party(77, "alice", "python", "python train.py"),)
    hot = replace(alert_pages.hot(), subject=drawn.uuid(0), affected=who, severity=100,
                  acknowledged=None)  # fmt: skip
    answers(monkeypatch, parts.watcher, "alerts", (hot,))
    healthy = replace(drawn.farm(), at=time.time(), devices=drawn.farm().devices[:1])
    answers(monkeypatch, parts.node.live, "latest", healthy)
    said = client.get("/api/board", headers=key).json()["headline"]
    assert said.startswith("GPU 0 is too hot (")
    assert said.endswith(f" · alice's {program}")


def test_where_past_alerts_cannot_be_read_the_present_is_told_with_a_note(
    client: Caller, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails(monkeypatch, parts.watcher, "past", Unavailable("the disk is gone"))
    said = client.get("/api/alerts").json()
    assert len(said["alerts"]) >= 2
    assert said["note"] == "past alerts cannot be read: the disk is gone"


HOLDERS = {
    drawn.uuid(0): [Holder("k7qm2", "alice", AT + 3600, None, LeaseState.HELD)],
    drawn.uuid(1): [
        Holder("p3xw9", "bob", None, 10 * 2**30, LeaseState.HELD),
        Holder(None, "carol", None, None, LeaseState.UNREADABLE),
    ],
}


def available() -> tuple[DeviceVerdict, ...]:
    """What the pictures' devices are, with a lease on the first."""
    held = Lease(
        "k7qm2", (Share(drawn.uuid(0), 0),), owner(), LeaseKind.COMMAND, AT - 60, 1, AT + 3600
    )
    return verdicts(capacities_of(drawn.farm().devices, claim(held)), {})


def test_the_golden_payloads_are_what_is_said() -> None:
    page = alert_pages.busy()
    devices = drawn.farm().devices[:2]
    rules = document(rule_list(Rulebook(), devices))
    golden = {
        "alerts": {**document(alert_page(replace(page, at=AT))), "worst": None},
        "event-alert": to_json(alert_pages.hot()),
        "alert-rules": {
            **rules,
            "rules": rules["rules"][:2],
            "explained_only": rules["explained_only"][:2],
        },
        "alert-rule": document(rule_page(BY_NAME["fan"], RuleContext(Rulebook(), devices))),
        "board": document(
            shown_board(
                board(drawn.farm(), page.alerts), "node17", HOLDERS, None, available(), page.alerts
            )
        ),
    }
    for name, said in golden.items():
        text = json.dumps(said, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        assert_golden(f"api/{name}.json", text)
