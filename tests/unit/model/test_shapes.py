"""What is described is what is sent: every member declared, its type true, and no other."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields, replace

from andon.access.roles import BLIND
from andon.alerts.rules.lamps import LampBoard
from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.rule_page import RuleContext, rule_list, rule_page
from andon.explain.conditions.catalogue import CONDITIONS
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.wire import Explained
from andon.leases.rules.occupants import Holder
from andon.model import wire, wire_in
from andon.model.alert import Alert, Silence
from andon.model.codec import document, to_json
from andon.model.device import DeviceStatus, Snapshot
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.shapes import Schemas, shape_of
from andon.node.seen.texts import SnapshotTexts
from andon.web.answers import description, payloads
from andon.web.answers.alert_payloads import alert_page, shown_board
from tests.support.described import check
from tests.support.full_snapshot import FULL
from tests.support.generated import any_of

SOME = settings(max_examples=min(40, 2 * settings().max_examples), deadline=None)
RULE = "/api/alerts/rules/{name}"
SNAPSHOTS = any_of(Snapshot, events=st.just(()))


@pytest.mark.slow
@SOME
@given(SNAPSHOTS)
def test_every_snapshot_is_as_described(snapshot: Snapshot) -> None:
    check(wire.snapshot_to_json(snapshot), description.SNAPSHOT_SHAPE)
    check(wire.loads(SnapshotTexts().of(snapshot, BLIND), wire.ANSWER), description.SNAPSHOT_SHAPE)


def test_fractions_of_another_program_are_sent_as_described() -> None:
    said = wire.snapshot_to_json(FULL)
    for place in (said["host"], said["devices"][0]["sample"], said["devices"][0]["limits"]):
        place |= {name: 1.5 for name, value in place.items() if type(value) in (int, float)}
    check(wire.snapshot_to_json(wire_in.snapshot_from_json(said)), description.SNAPSHOT_SHAPE)


@SOME
@given(st.lists(any_of(Alert), max_size=2), st.lists(any_of(Silence), max_size=1))
@pytest.mark.slow
def test_every_alert_is_as_described(alerts: list[Alert], silences: list[Silence]) -> None:
    page = AlertOverview("n1", 1.0, tuple(alerts), tuple(silences))
    check(document(alert_page(page)), description.ALERT_LIST)


@SOME
@given(any_of(LeaseList), any_of(LeaseRow))
@pytest.mark.slow
def test_every_lease_is_as_described(found: LeaseList, row: LeaseRow) -> None:
    check(document(replace(found, at=1.0)), description.LEASE_LIST)
    check(payloads.grant(row, {"A": "1"}), description.ANSWERS["post", "/api/leases"])


@SOME
@given(any_of(Explained))
@pytest.mark.slow
def test_every_reason_is_as_described(found: Explained) -> None:
    check(
        {"schema": "andon.why/1", **payloads.about(FULL), **to_json(found)},
        description.WHY_SHAPE,
    )


@SOME
@given(any_of(LampBoard), any_of(dict[str, list[Holder]]))
def test_every_board_is_as_described(board: LampBoard, held: Mapping[str, list[Holder]]) -> None:
    check(document(shown_board(board, "n1", held)), description.ANSWERS["get", "/api/board"])


@pytest.mark.slow
@SOME
@given(st.lists(any_of(DeviceStatus), max_size=2))
def test_every_rule_is_as_described(devices: list[DeviceStatus]) -> None:
    check(document(rule_list(Rulebook(), devices)), description.ANSWERS["get", "/api/alerts/rules"])
    here, shape = RuleContext(Rulebook(), devices), description.ANSWERS["get", RULE]
    for condition in CONDITIONS:
        check(document(rule_page(condition, here)), shape)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(more=1),
        lambda said: said["devices"][0]["sample"].update(more=1),
        lambda said: said["devices"][0]["sample"].pop("memory_percent"),
        lambda said: said["devices"][0].update(state="tired"),
        lambda said: said["devices"][0]["sample"].update(utilization_percent=1.5),
    ],
)
def test_what_is_not_as_described_is_found(change: Any) -> None:
    said = wire.loads(wire.dumps(wire.snapshot_to_json(FULL)), wire.ANSWER)
    check(said, description.SNAPSHOT_SHAPE)
    change(said)
    with pytest.raises(ValueError):
        check(said, description.SNAPSHOT_SHAPE)


def test_every_shape_and_every_reading_has_a_sentence() -> None:
    schemas = Schemas(description.KNOWN)
    for shape in description.ANSWERS.values():
        schemas.ref(shape)
    assert [name for name, one in schemas.definitions.items() if not one["description"]] == []
    sample = schemas.definitions["Sample"]["properties"]
    assert [name for name, one in sample.items() if not one.get("description")] == []


def test_a_type_without_json_is_refused() -> None:
    class Odd(Struct):
        when: complex

    assert fields(Odd)
    with pytest.raises(TypeError, match="no JSON"):
        Schemas({}).ref(shape_of(Odd))
