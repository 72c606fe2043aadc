"""What a device reported withholds it, wherever it is handed out, until it is over."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.access.local_rest import RestAnswer, socket_name
from andon.alerts.rules.commands import current
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.errors import Conflict
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.rules.broken_devices import reported_broken
from andon.leases.rules.choice import hopeful, obstacle
from andon.leases.rules.eligibility import HEALTH, ObstacleKind
from andon.model.alert import Alert, AlertList, Level, Phase
from andon.model.codec import document
from andon.model.device import Snapshot, State
from andon.model.event import Event, EventKind
from andon.node import broken_devices, local_server
from andon.node.broken_devices import BrokenDevicesQuery
from tests.support.homes import made_node_state
from tests.support.local_rest import HEX, answering
from tests.support.replaced import answers
from tests.support.sharing_parts import capacities_of, gpu, need, request
from tests.support.surroundings import STRANGER, server_may_run

AT = 1_767_614_400.0


def fired(rule: str = "xid", level: Level = Level.CRITICAL, **more: Any) -> Alert:
    values: dict[str, Any] = {
        "state": Phase.FIRING,
        "where": "GPU 0 (NVIDIA H100)",
        "message": "GPU 0 reports Xid 79: the GPU has fallen off the bus",
    }
    return Alert(f"{rule}@GPU-0#1", rule, "GPU-0", level, since=AT, **(values | more))


@pytest.mark.parametrize(
    ("alert", "withheld"),
    [
        (fired(), True),
        (fired("ecc", message="GPU 0 has 3 uncorrectable memory errors"), True),
        (fired(level=Level.WARNING), False),  # a copy engine, a row that is remapped at a reset
        (fired("ecc", level=Level.INFO), False),  # from before andon first saw it
        (fired("thermal"), False),
        (fired(state=Phase.RESOLVED), False),
    ],
)
def test_only_what_means_a_broken_device_withholds_it(alert: Alert, withheld: bool) -> None:
    assert bool(reported_broken([alert])) is withheld


def test_an_error_of_no_device_withholds_none() -> None:
    assert (
        reported_broken([Alert("xid@node#1", "xid", "node", Level.CRITICAL, Phase.FIRING, AT)])
        == {}
    )


@pytest.mark.slow
def test_a_broken_device_is_told_with_its_error_and_returned_when_that_is_over() -> None:
    """From the event itself, through the alerts, to the choice; and back after a day."""
    state, status, book = EMPTY, gpu(0), Rulebook()
    node = Snapshot("n", AT, boot="one", devices=(status,))
    xid = Event(EventKind.XID, "GPU-0", AT, 79, source="nvml")
    told: dict[int, str | None] = {}
    for second in range(0, 86_500, 25):
        seen = Observation(node, () if second else (xid,))
        state = step(state, seen, Moment(AT + second, float(second)), book).state
        capacity = capacities_of([status], broken=reported_broken(current(state)))[0]
        found = obstacle(capacity, need(even_if_used=True))
        told[second] = None if found is None else f"{found.kind}: {found.reason}"
    assert str(told[0]).startswith("broken: reports Xid 79: the GPU has fallen off the bus")
    assert told[86_375] == told[0]
    assert told[86_475] is None


def test_a_board_takes_its_instances_along() -> None:
    part = gpu(1)
    part = replace(part, device=replace(part.device, parent="GPU-0"))
    [capacity] = capacities_of([part], broken={"GPU-0": "reports Xid 48"})
    assert capacity.trouble is not None
    assert capacity.trouble.kind is ObstacleKind.BROKEN


def test_every_ailment_is_waited_for_and_goes_with_its_cure() -> None:
    """Lost, silent, errors, ghost memory: withheld with the reason, and free when cured."""
    sick = {
        ObstacleKind.LOST: gpu(0, state=State.LOST),
        ObstacleKind.STALE: gpu(0, state=State.STALE),
        ObstacleKind.ECC: gpu(0, ecc_uncorrected=1),
        ObstacleKind.UNATTRIBUTED_MEMORY: gpu(0, used_gib=12),
    }
    for bar, status in sick.items():
        [capacity] = capacities_of([status])
        found = obstacle(capacity, need())
        assert (found.kind if found else None) is bar
        assert bar in HEALTH
        assert not hopeful(capacity, need()), "work that ends does not cure it"
        assert obstacle(capacities_of([gpu(0)])[0], need()) is None


def test_a_grant_passes_a_broken_device_over_and_says_so(book: Book) -> None:
    said = {"GPU-0": "reports Xid 79: gone"}
    look = Snapshot("n", AT, devices=(gpu(0), gpu(1)))
    granter = Granter(book, Availability(lambda: look, broken=lambda: said))
    grant = granter.grant(request(), LeaseTerms(), 0.0)
    assert [share.uuid for share in grant.held.lease.shares] == ["GPU-1"]
    with pytest.raises(Conflict) as refused:
        granter.grant(request(), LeaseTerms(), 0.0)
    assert "GPU 0: reports Xid 79: gone" in refused.value.mistakes
    said.clear()
    cured = granter.grant(request(), LeaseTerms(), 0.0)
    assert [share.uuid for share in cured.held.lease.shares] == ["GPU-0"]
    for held in (grant, cured):
        held.held.release()
    assert Book(make=False).entries() == []


# What a server says, asked at its local socket.

PORT = 20_000 + 2 * os.getpid() % 40_000  # only in names: other runs have others


@pytest.fixture(autouse=True)
def _a_server_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    server_may_run(monkeypatch, True)


def saying(*alerts: Alert) -> dict[str, RestAnswer]:
    said = document(AlertList("n", AT, False, None, alerts, ()))
    return {broken_devices.ALERTS_PATH: RestAnswer(200, json.dumps(said).encode())}


def test_the_server_is_asked_and_not_at_every_look() -> None:
    with answering(PORT, saying(fired())) as server:
        asks = BrokenDevicesQuery(PORT)
        assert asks() == {"GPU-0": "reports Xid 79: the GPU has fallen off the bus"}
        assert asks() is asks()
        assert server.frames == [(broken_devices.ALERTS_PATH,)]


def test_the_own_server_is_asked_first(state_folder: Path) -> None:
    folder = made_node_state(state_folder)
    (folder / "server.json").write_text(f'{{"url": "http://127.0.0.1:{PORT + 1}"}}')
    with answering(PORT, saying()), answering(PORT + 1, saying(fired())):
        assert BrokenDevicesQuery(PORT)().keys() == {"GPU-0"}


def test_a_strangers_listener_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, local_server, "peer_uid", STRANGER)
    with answering(PORT, saying(fired())) as server:
        assert BrokenDevicesQuery(PORT)() == {}
        assert (broken_devices.ALERTS_PATH,) not in server.frames


@pytest.mark.parametrize(
    ("status", "body"), [(401, b"{}"), (200, b"<html>"), (200, b'{"schema": "x"}'), (200, b"\xff")]
)
def test_what_answers_otherwise_says_nothing(status: int, body: bytes) -> None:
    with answering(PORT, {broken_devices.ALERTS_PATH: RestAnswer(status, body)}) as server:
        assert BrokenDevicesQuery(PORT)() == {}
        assert server.frames


def test_a_server_that_hangs_is_done_without() -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{socket_name(PORT, HEX)}")
        door.listen()
        assert BrokenDevicesQuery(PORT, timeout_seconds=0.05)() == {}


def test_without_a_server_nothing_is_known() -> None:
    assert BrokenDevicesQuery(PORT)() == {}
