"""The board: lamps, words and one headline that a person reads from across the room."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.lamps import LampBoard, board
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.conditions.condition import severity
from andon.model.alert import Acknowledgement, Alert, Level, Phase
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.model.event import Party
from andon.model.lamp import Lamp

AT = 1_767_614_400.0
ALICE = (Party(7, "alice", "python", "python -u /home/alice/train.py --lr 1", AT - 71 * 60),)


def status(index: int, state: State = State.OK, busy: int | None = 98) -> DeviceStatus:
    device = Device(f"GPU-{index}", index, "nvidia", "NVIDIA H200")
    sample = Sample(AT, utilization_percent=busy) if state is State.OK else None
    reason = None if state is State.OK else f"the driver says {state}"
    return DeviceStatus(device, state, AT, reason, sample=sample)


def node(*statuses: DeviceStatus) -> Snapshot:
    return Snapshot("node17", AT, devices=statuses)


def alert(
    rule: str,
    subject: str = "GPU-3",
    level: Level = Level.WARNING,
    who: tuple[Party, ...] = (),
    state: Phase = Phase.FIRING,
) -> Alert:
    return Alert(f"{rule}@{subject}#1", rule, subject, level, state, AT,
                 severity=severity(level, BY_NAME[rule]), message=f"{rule} of {subject}",
                 affected=who)  # fmt: skip


def shown(statuses: Iterable[DeviceStatus], *alerts: Alert) -> LampBoard:
    return board(node(*statuses), alerts)


EIGHT = [status(index) for index in range(8)]


@pytest.mark.parametrize(
    ("statuses", "headline", "lamp"),
    [
        (EIGHT, "All 8 GPUs are fine", Lamp.GREEN),
        (EIGHT[:1], "The GPU is fine", Lamp.GREEN),
        ([], "No GPU found on this node", Lamp.GREY),
        ([status(0, State.ASLEEP)], "The GPU is asleep", Lamp.GREY),
        ([status(0), status(1, State.ASLEEP)], "Both GPUs are fine; 1 is asleep", Lamp.GREEN),
        ([status(0), status(1, State.STALE)], "GPU 1 is not responding", Lamp.GREY),
        ([status(0), status(1, State.LOST)], "GPU 1 is lost: the driver says lost", Lamp.RED),
    ],
)
def test_the_headline_without_alerts(
    statuses: list[DeviceStatus], headline: str, lamp: Lamp
) -> None:
    found = shown(statuses)
    assert (found.headline, found.lamp) == (headline, lamp)


def test_the_headline_says_what_and_for_whom() -> None:
    hot = alert("thermal", level=Level.CRITICAL, who=ALICE)
    found = shown(EIGHT, replace(hot, since=AT - 1920, value=91.0, unit="celsius"))
    assert found.headline == "GPU 3 is too hot (91 °C, for 32 min) · alice's train.py"
    assert found.lamp is Lamp.RED


def test_the_headline_of_a_device_that_has_cooled_down_is_what_its_tile_says() -> None:
    words = "GPU 3 was too hot (100 °C); now 67 °C, clears in 1 min 44 s"
    hot = replace(alert("thermal", who=ALICE), message=words, clears_in_seconds=104.0)
    found = shown(EIGHT, hot)
    assert (found.headline, found.lamp, found.headline_alert) == (words, Lamp.RING, hot.id)
    assert (found.devices[3].lamp, found.devices[3].status) == (Lamp.RING, "was too hot")


def test_amber_says_for_whom() -> None:
    lamp = shown(EIGHT, alert("thermal", who=ALICE)).devices[3]
    assert (lamp.lamp, lamp.status, lamp.affected_user) == (Lamp.AMBER, "too hot", "alice")
    assert lamp.reason == "thermal of GPU-3"
    assert lamp.alerts == ("thermal@GPU-3#1",)


@pytest.mark.parametrize("state", [Phase.PENDING, Phase.RESOLVED])
def test_what_does_not_fire_lights_no_lamp(state: Phase) -> None:
    found = shown(EIGHT, alert("thermal", state=state))
    assert {lamp.lamp for lamp in found.devices} == {Lamp.GREEN}
    assert found.headline == "All 8 GPUs are fine"


SOON: dict[str, Any] = {"fires_in_seconds": 16.0, "value": 91.0, "unit": "celsius"}


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        (SOON, "GPU 3 is getting too hot: 91 °C (alert in 16 s)"),
        ({**SOON, "rule": "fan"}, "GPU 3 has a stopped fan: 91 °C (alert in 16 s)"),
        ({**SOON, "value": None}, "GPU 3 is getting too hot (alert in 16 s)"),
        ({"fires_in_seconds": 300.0}, "All 8 GPUs are fine"),
        ({}, "All 8 GPUs are fine"),
        ({**SOON, "silenced_until": AT + 9}, "All 8 GPUs are fine"),
        ({**SOON, "level": Level.INFO}, "All 8 GPUs are fine"),
    ],
)
def test_what_fires_within_a_minute_is_a_ring_and_one_headline(
    changes: dict[str, Any], headline: str
) -> None:
    """A green lamp stood beside "No active alerts yet; GPU 2 is too hot"."""
    pending = replace(alert("thermal", state=Phase.PENDING), **changes)
    seen, ring = shown(EIGHT, pending), headline.startswith("GPU")
    assert (seen.headline, seen.lamp) == (headline, Lamp.RING if ring else Lamp.GREEN)
    assert seen.headline_alert == (pending.id if ring else None)
    assert seen.devices[3].lamp is seen.lamp


def test_the_word_of_a_pending_alert_says_that_it_is_on_its_way() -> None:
    pending = replace(alert("thermal", state=Phase.PENDING), **SOON)
    assert shown(EIGHT, pending).devices[3].status == "getting too hot"


SILENCED: dict[str, Any] = {"silenced_until": AT + 2400}
SEEN: dict[str, Any] = {"acknowledged": Acknowledgement(AT, "ana")}
HANDLED = [
    (SILENCED, "7 of 8 GPUs are fine; GPU 3 is too hot (silenced for 40 min more)"),
    (SEEN, "7 of 8 GPUs are fine; GPU 3 is too hot (acknowledged by ana)"),
]


@pytest.mark.parametrize(("how", "headline"), HANDLED)
def test_a_handled_alert_keeps_its_lamp_and_calls_nobody(
    how: dict[str, Any], headline: str
) -> None:
    hot = replace(alert("thermal", level=Level.CRITICAL, who=ALICE), **how)
    found = shown(EIGHT, hot)
    assert (found.headline, found.lamp, found.headline_alert) == (headline, Lamp.RING, hot.id)
    (lamp,) = (one for one in found.devices if one.uuid == hot.subject)
    assert (lamp.lamp, lamp.status, lamp.handled) == (Lamp.RED, "too hot", True)
    assert not lamp.is_troubled


def test_the_headline_of_a_handled_device_that_has_cooled_down_says_that_it_was_hot() -> None:
    words = "GPU 3 was too hot (91 °C); now 40 °C, clears in 44 s"
    hot = replace(alert("thermal"), message=words, clears_in_seconds=44.0, **SEEN)
    assert shown(EIGHT, hot).headline == f"7 of 8 GPUs are fine; {words} (acknowledged by ana)"


@pytest.mark.parametrize("how", [SILENCED, SEEN])
def test_what_nobody_handles_leads(how: dict[str, Any]) -> None:
    """A silenced alert led, and GPU 0, hung for 8 min, was "1 more needs attention"."""
    hot = replace(alert("thermal", "GPU-2", Level.CRITICAL, ALICE), **how)
    fan = alert("fan", "GPU-0")
    found = shown(EIGHT, hot, fan)
    assert (found.headline, found.lamp) == ("GPU 0 has a stopped fan", Lamp.AMBER)
    assert [one.uuid for one in found.devices if one.is_troubled] == ["GPU-0"]
    assert max(found.devices, key=lambda one: one.urgency).uuid == "GPU-0"


def test_of_two_alerts_of_a_device_the_one_that_nobody_handles_lights_it() -> None:
    hot = replace(alert("thermal", level=Level.CRITICAL), **SILENCED)
    lamp = shown(EIGHT, hot, alert("fan")).devices[3]
    assert (lamp.lamp, lamp.status, lamp.handled) == (Lamp.AMBER, "fan stopped", False)


@pytest.mark.parametrize(
    ("statuses", "headline"),
    [
        (EIGHT, "All 8 GPUs are fine; store of store (silenced for 40 min more)"),
        ([], "No GPU found on this node; store of store (silenced for 40 min more)"),
    ],
)
def test_a_silenced_trouble_of_the_node_does_not_lead(
    statuses: list[DeviceStatus], headline: str
) -> None:
    found = shown(statuses, replace(alert("store", "store"), **SILENCED))
    assert (found.headline, found.lamp) == (headline, Lamp.RING)


def test_what_needs_somebody_comes_before_a_ring() -> None:
    soon = replace(alert("thermal", "GPU-1", state=Phase.PENDING), **SOON)
    found = shown([status(0), status(1), status(2, State.STALE)], soon)
    assert (found.headline, found.lamp) == ("GPU 2 is not responding", Lamp.GREY)


def test_information_leaves_the_lamp_green() -> None:
    found = shown(EIGHT, *(alert("memory", f"GPU-{n}", Level.INFO) for n in range(8)))
    assert {lamp.lamp for lamp in found.devices} == {Lamp.GREEN}
    assert found.headline == "All 8 GPUs are fine"
    assert found.devices[0].alerts == ("memory@GPU-0#1",)


def test_heat_outranks_idleness() -> None:
    lamp = shown(EIGHT, alert("idle"), alert("thermal")).devices[3]
    assert lamp.status == "too hot"


def test_the_worst_device_leads_and_the_others_are_counted() -> None:
    found = shown(EIGHT, alert("thermal", "GPU-1"), alert("xid", "GPU-6", Level.CRITICAL))
    assert found.headline == "GPU 6 reports an error; 1 more needs attention"


def test_a_silent_device_whose_hang_fires_is_no_longer_grey() -> None:
    statuses = [status(0), status(3, State.STALE)]
    assert shown(statuses).devices[1].lamp is Lamp.GREY
    found = shown(statuses, alert("driver_hung"))
    assert found.devices[1].lamp is Lamp.AMBER


def test_a_trouble_of_the_node_leads_where_the_devices_are_fine() -> None:
    found = shown(EIGHT, alert("store", "store"))
    assert (found.headline, found.lamp) == ("store of store", Lamp.AMBER)
    assert {lamp.lamp for lamp in found.devices} == {Lamp.GREEN}


@pytest.mark.parametrize(
    ("busy", "word"), [(0, "idle"), (20, "light"), (60, "moderate"), (98, "heavy"), (None, "fine")]
)
def test_a_healthy_device_says_what_it_does(busy: int | None, word: str) -> None:
    assert shown([status(0, busy=busy)]).devices[0].status == word


@pytest.mark.parametrize(
    ("party", "told"),
    [
        (Party(7, "bob", "python"), "bob's python"),
        (Party(7, None, "python"), "python"),
        (Party(7), "process 7"),
        (Party(7, "bob", "python", "bash run.sh", AT + 9), "bob's run.sh"),
    ],
)
def test_what_is_not_known_of_a_process_is_left_out(party: Party, told: str) -> None:
    found = shown(EIGHT, alert("thermal", who=(party,)))
    assert found.headline == f"GPU 3 is too hot · {told}"


def test_the_headline_of_a_lost_device_says_what_happened_when_and_who_was_on_it() -> None:
    users = ("root", "caroline", "dora")
    lost = replace(
        status(3, State.LOST),
        reason="it has fallen off the bus",
        since=AT - 1560,
        last_users=users,
    )
    found = shown([status(0), lost])
    assert found.headline == (
        "GPU 3 is lost: it has fallen off the bus, 26 min ago. On it: root, caroline and dora"
    )
    assert found.headline_alert is None
    fired = alert("device_lost", "GPU-3", Level.CRITICAL)
    assert shown([status(0), lost], fired).headline_alert == fired.id


def test_the_headline_of_a_hung_device_says_for_how_long_and_who_was_on_it() -> None:
    reason = "driver call stuck for 26 min"
    hung = replace(status(5, State.STALE), reason=reason, last_users=("alice",))
    found = shown([hung], alert("driver_hung", "GPU-5", Level.CRITICAL))
    assert found.headline == "GPU 5 is not responding: driver call stuck for 26 min. On it: alice"
