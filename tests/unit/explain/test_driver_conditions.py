"""Drivers that cannot be read: when it is said, in which words, and where nothing is amiss."""

import pytest
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.lamps import board
from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.cli.commands.share.who import NOT_KNOWN, _lines, _unknown
from andon.cli.show.render import no_device
from andon.explain.conditions.node.container_without_gpu import remedy
from andon.explain.conditions.node.driver_versions_differ import difference
from andon.explain.conditions.node.drivers import cannot_be_read, has_none
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.why import explain, explain_absence, explain_node
from andon.model.alert import Alert, Phase
from andon.model.device import (
    Device,
    DeviceStatus,
    DriverVersions,
    Fault,
    FaultCode,
    Host,
    Snapshot,
    State,
)
from andon.model.lamp import Lamp
from andon.web.answers.health import _backends

AT = 1_790_000_000.0
MISMATCH = Fault(
    "nvidia", "driver and library versions differ", "reboot", FaultCode.VERSION_MISMATCH, 2
)
NO_LIBRARY = Fault("nvidia", "the library was not found", "install it", FaultCode.NO_DRIVER)
BOXED = replace(NO_LIBRARY, cards=8, device_files=False, container="docker")
OLD = {"nvidia": "550.54.14", "nvidia_uvm": "550.54.14"}


def device(index: int, state: State = State.LOST, vendor: str = "nvidia") -> DeviceStatus:
    reason = MISMATCH.reason if state is State.LOST else None
    return DeviceStatus(Device(f"{vendor}-{index}", index, vendor, "GPU"), state, AT, reason)


def node(*faults: Fault, devices: tuple[DeviceStatus, ...] = ()) -> Snapshot:
    return Snapshot("n1", AT, devices=devices, faults=faults)


def lit(snapshot: Snapshot) -> tuple[Alert, ...]:
    """What `andon alerts` shows of one sample."""
    seen = Observation(snapshot)
    state = step(EMPTY, seen, Moment(AT, 1.0), Rulebook()).state
    return tuple(replace(alert, state=Phase.FIRING) for alert in current(state))


CASES = {
    "a mismatch, nothing listed": (MISMATCH, (), True),
    "a mismatch, all lost": (MISMATCH, (device(0), device(1)), True),
    "the cards are not counted, and all are lost": (NO_LIBRARY, (device(0),), True),
    "one still answers": (MISMATCH, (device(0), device(1, State.OK)), False),
    "one is asleep": (MISMATCH, (device(0), device(1, State.ASLEEP)), False),
    "they do not respond": (MISMATCH, (device(0, State.STALE),), False),
    "another vendor's answers": (MISMATCH, (device(0, State.OK, "amd"),), True),
    "no card": (replace(NO_LIBRARY, cards=0), (), False),
    "nobody knows the cards": (NO_LIBRARY, (), False),
    "a card without driver": (replace(NO_LIBRARY, cards=1), (), True),
    "refused, cards unknown": (replace(MISMATCH, code="no_permission", cards=None), (), True),
    "no code, cards unknown": (Fault("tpu", "it is broken"), (), False),
    "a third party's are lost": (Fault("tpu", "it broke"), (device(0, vendor="tpu"),), True),
    "nvidia-smi reads them": (replace(MISMATCH, code="other_backend"), (device(0),), False),
    "nvidia-smi itself fails": (replace(MISMATCH, source="nvidia_smi"), (device(0),), True),
    "sampling failed": (Fault("sampler", "this reading failed"), (), False),
    "macOS": (Fault("macOS", "GPUs cannot be read on macOS"), (), False),
}


def test_a_driver_cannot_be_read_only_where_its_cards_are_here() -> None:
    wrong = {
        name: expected
        for name, (fault, devices, expected) in CASES.items()
        if cannot_be_read(fault, node(fault, devices=devices)) is not expected
    }
    assert wrong == {}


def test_one_alert_speaks_for_the_driver_and_none_for_each_device() -> None:
    (alert,) = lit(node(MISMATCH, devices=(device(0), device(1))))
    assert (alert.rule, alert.subject) == ("driver_unreadable", "reader:nvidia")
    assert alert.message == "No GPU can be read: driver and library versions differ"
    assert alert.advice == "Reboot. For details: andon doctor"
    assert alert.evidence == {
        "source": "nvidia",
        "fault": MISMATCH.reason,
        "code": "version_mismatch",
        "cards": 2,
        "devices_readable": 0,
    }


def test_where_another_vendors_devices_work_the_vendor_is_named() -> None:
    snapshot = node(MISMATCH, devices=(device(0, State.OK, "amd"),))
    (alert,) = lit(snapshot)
    assert alert.message.startswith("No NVIDIA GPU can be read:")
    assert not AlertOverview("n1", AT, (alert,)).nothing_readable
    assert AlertOverview("n1", AT, lit(node(MISMATCH))).nothing_readable


def test_the_headline_is_the_drivers_and_not_that_of_the_first_device() -> None:
    snapshot = node(MISMATCH, devices=(device(0), device(1)))
    shown = board(snapshot, lit(snapshot))
    assert (shown.lamp, shown.headline) == (
        Lamp.RED,
        "No GPU can be read: driver and library versions differ",
    )


def test_a_laptop_without_a_gpu_is_told_nothing_but_that() -> None:
    snapshot = node(replace(NO_LIBRARY, cards=0))
    assert lit(snapshot) == ()
    assert has_none(snapshot)
    assert no_device(snapshot).startswith("No GPU found on this node.")
    assert [reason.code for reason in explain_absence([snapshot])] == ["no_device"]


def test_nobody_is_not_said_where_nothing_can_be_read() -> None:
    unread = _unknown(node(MISMATCH))
    assert unread.startswith(f"{NOT_KNOWN} No GPU can be read on this node.")
    (first, *_) = _lines([], unread, 200)
    assert "no one" not in first.plain
    assert "no one" in _lines([], None, 200)[0].plain
    assert NOT_KNOWN not in _unknown(node(replace(NO_LIBRARY, cards=0)))


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        (MISMATCH, "failing"),
        (BOXED, "failing"),
        (NO_LIBRARY, "failing"),
        (replace(NO_LIBRARY, cards=0), "absent"),
        (replace(MISMATCH, code=FaultCode.OTHER_BACKEND), "degraded"),
    ],
)
def test_health_says_the_same(fault: Fault, state: str) -> None:
    (found,) = _backends(node(fault))
    assert (found.state, found.reason) == (state, fault.reason)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("version_mismatch", "version_mismatch"),
        ("no_permission", "no_permission"),
        ("no_driver", "no_driver"),
        ("no_device", "no_device"),
        ("driver_failed", "no_driver"),
        ("", "version_mismatch"),
    ],
)
def test_why_goes_by_the_code_and_by_the_words_only_without_one(code: str, kind: str) -> None:
    fault = replace(MISMATCH, code=code, reason="a mismatch")
    snapshot = node(fault)
    assert [reason.code for reason in explain_absence([snapshot])] == [kind]
    lost = node(fault, devices=(device(0),))
    (reason,) = explain([lost], "nvidia-0")
    assert (reason.code, reason.sentence) == (kind, "No GPU can be read: a mismatch.")


# Containers.


def test_a_container_without_a_gpu_is_told_with_its_remedy() -> None:
    snapshot = node(BOXED, devices=(device(0), device(1)))
    (alert,) = lit(snapshot)
    assert (alert.rule, alert.evidence["container"]) == ("container_without_gpu", "docker")
    assert alert.message == "This container (docker) has no NVIDIA GPU, although its host has 8"
    assert "--gpus all" in alert.advice
    assert AlertOverview("n1", AT, (alert,)).nothing_readable
    (absent,) = explain_absence([node(BOXED)])
    assert (absent.code, absent.advice) == ("container_without_gpu", f"{remedy(BOXED)}.")
    assert {r[0].code for r in explain_node([snapshot]).values()} == {"container_without_gpu"}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("docker", "--gpus all"),
        ("kubernetes", "device plugin"),
        ("podman", "--device nvidia.com/gpu=all"),
        ("apptainer", "--nv"),
        ("garden", "--gpus all"),
    ],
)
def test_each_kind_of_container_has_its_remedy(kind: str, says: str) -> None:
    assert says in remedy(replace(BOXED, container=kind))


def test_another_vendors_files_are_named() -> None:
    assert "--device /dev/dri --device /dev/kfd" in remedy(replace(BOXED, source="amd"))


@pytest.mark.parametrize(
    "change", [{"container": ""}, {"container": None}, {"device_files": True}, {"cards": None}]
)
def test_it_is_the_drivers_fault_where_no_container_lacks_a_file(change: dict[str, object]) -> None:
    fault = replace(BOXED, code=FaultCode.DRIVER_FAILED, **change)
    rules = [alert.rule for alert in lit(node(fault, devices=(device(0),)))]
    assert rules == ["driver_unreadable"]


# Versions.


@pytest.mark.parametrize(
    ("modules", "library", "other"),
    [
        (OLD, "550.54.14", None),
        (OLD, None, None),
        ({}, "580.95.05", None),
        ({"nvidia_uvm": "1"}, "2", None),
        (OLD, "580.95.05", ("its library on disk", "580.95.05")),
        (OLD | {"nvidia_drm": "580.95.05"}, None, ("nvidia_drm", "580.95.05")),
    ],
)
def test_versions_differ_only_where_both_are_known(
    modules: dict[str, str], library: str | None, other: tuple[str, str] | None
) -> None:
    found = difference(DriverVersions("nvidia", modules, library))
    assert (None if found is None else (found.part, found.other)) == other


def test_an_upgrade_without_a_reboot_is_said_on_the_node_and_by_each_of_its_devices() -> None:
    host = Host(drivers=(DriverVersions("nvidia", OLD, "580.95.05"),))
    other = device(1, State.OK, "amd")
    snapshot = replace(node(devices=(device(0, State.OK), other)), host=host)
    (alert,) = lit(snapshot)
    assert (alert.rule, alert.subject) == ("driver_versions_differ", "node")
    assert alert.message == (
        "NVIDIA's driver 550.54.14 is loaded, but its library on disk is 580.95.05: it works until "
        "the next start"
    )
    assert alert.advice.startswith("Reboot")
    assert explain([snapshot], "nvidia-0")[0].code == "driver_versions_differ"
    assert "driver_versions_differ" not in [r.code for r in explain([snapshot], "amd-1")]
