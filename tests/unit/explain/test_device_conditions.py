"""Links, set clocks and modes of the driver: what `why` says, and the words of their alerts."""

import pytest
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.state import EMPTY, AlertState
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.clocks.narrow_link import Link
from andon.explain.conditions.open_files import openers_of
from andon.explain.conditions.rulebook import Override, Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.evidence.reasons import Reason
from andon.explain.why import explain
from andon.model.alert import Alert, Level
from andon.model.device import (
    Device,
    DeviceStatus,
    Host,
    Limits,
    Process,
    Sample,
    Setup,
    Snapshot,
    State,
)
from andon.units import GIB

AT = 1_790_000_000.0
BOOK = Rulebook()
CARD = Limits(pcie_generation=5, pcie_width=16, sm_clock_mhz=1980)
BUSY = Sample(
    AT, utilization_percent=98, temperature_celsius=60, sm_clock_mhz=1980, throttle=(),
    pcie_generation=5, pcie_width=16, memory_used_bytes=0, performance_state=0, power_watts=500.0,
    power_limit_watts=700.0,
)  # fmt: skip


def gpu(
    sample: Sample = BUSY, limits: Limits = CARD, setup: Setup | None = None, vendor: str = "nvidia"
) -> DeviceStatus:
    device = Device("GPU-0", 0, vendor, "H200", memory_total_bytes=100 * GIB, limits=limits)
    device = device if setup is None else replace(device, setup=setup)
    return DeviceStatus(device, State.OK, AT, sample=sample)


def why(status: DeviceStatus) -> dict[str, Reason]:
    return {r.code: r for r in explain([Snapshot("n", AT, devices=(status,))], "GPU-0")}


def watched(*statuses: tuple[float, DeviceStatus]) -> AlertState:
    """The state after some looks, each so many seconds after the first."""
    state = EMPTY
    for after, status in statuses:
        snapshot = Snapshot("n", AT + after, boot="b", devices=(status,))
        moment = Moment(AT + after, 100 + after)
        state = step(state, Observation(snapshot), moment, BOOK).state
    return state


def alert(status: DeviceStatus, rule: str, seconds: int = 400) -> Alert:
    return of(watched(*((float(after), status) for after in range(0, seconds + 1, 20))), rule)


def of(state: AlertState, rule: str) -> Alert:
    return next(one for one in current(state) if one.rule == rule)


# The link.


def test_the_link_of_an_alert_is_counted_out() -> None:
    said = alert(gpu(replace(BUSY, pcie_width=4, pcie_generation=4)), "narrow_link")
    assert said.message == (
        "The PCIe link of GPU 0 has 4 of 16 lanes and runs at generation 4 of 5 under load: "
        "88 % of its speed lost"
    )
    width, speed = {"pcie_width": 4, "limits.pcie_width": 16}, {"pcie_generation": 4}
    lost = {"speed_lost_percent": 87.5, "utilization_percent": BUSY.utilization_percent}
    assert said.evidence == {**width, **speed, "limits.pcie_generation": 5, **lost}


def test_a_link_that_was_mended_says_how_it_was() -> None:
    narrow, whole = gpu(replace(BUSY, pcie_width=4)), gpu()
    looks = [(float(after), narrow) for after in range(0, 401, 20)]
    said = of(watched(*looks, (410.0, whole)), "narrow_link")
    assert said.message == (
        "GPU 0 had a narrow PCIe link (speed lost 75 %); now 0 %, clears in 2 min"
    )
    assert said.evidence == {"worst.speed_lost_percent": 75.0, "speed_lost_percent": 0.0}


@pytest.mark.parametrize(
    ("link", "lost"),
    [
        (Link(16, 16, 5, 5), 0), (Link(8, 16, 5, 5), 50), (Link(16, 16, 4, 5), 50),
        (Link(4, 16, 3, 4), 87.5), (Link(1, 16, 1, 5), 99.609375), (Link(16, 8, 5, 4), 0),
    ],
)  # fmt: skip
def test_half_the_lanes_or_one_generation_is_half_the_speed(link: Link, lost: float) -> None:
    assert link.lost_percent == lost


def test_an_old_reading_of_the_link_is_none() -> None:
    old = replace(BUSY, pcie_width=4, read_at={"pcie_width": AT - 61})
    later = [(float(n), gpu(replace(old, at=AT + n, read_at={"pcie_width": AT + n - 61})))
             for n in range(0, 400, 20)]  # fmt: skip
    assert "narrow_link" not in {one.rule for one in current(watched(*later))}


def test_a_slot_of_eight_lanes_is_a_fact_and_no_fault() -> None:
    slotted = replace(CARD, pcie_slot_width=8, pcie_slot_generation=5)
    found = why(gpu(replace(BUSY, pcie_width=8), slotted))
    assert list(found) == ["healthy", "narrow_slot"]
    assert found["narrow_slot"].sentence == "Its slot offers 8 of its 16 lanes."
    assert not found["narrow_slot"].is_trouble


def test_fewer_lanes_than_the_slot_offers_are_a_fault() -> None:
    slotted = replace(CARD, pcie_slot_width=8, pcie_slot_generation=4)
    found = why(gpu(replace(BUSY, pcie_width=4, pcie_generation=4), slotted))
    assert list(found) == ["narrow_link", "narrow_slot"]
    assert "has 4 of 8 lanes under load" in found["narrow_link"].sentence
    assert found["narrow_slot"].sentence == (
        "Its slot offers 8 of its 16 lanes and PCIe generation 4 of 5."
    )


def test_a_slot_that_states_less_than_the_link_has_is_not_believed() -> None:
    assert list(why(gpu(limits=replace(CARD, pcie_slot_width=1)))) == ["healthy"]


# Clocks.


def test_clocks_that_someone_set_come_with_what_undoes_them() -> None:
    low = replace(BUSY, sm_clock_mhz=990, throttle=("applications_clocks_setting",))
    said = alert(gpu(low), "clocks_set")
    assert said.message.startswith(
        "GPU 0 runs 50 % below its maximum clock because someone set its clocks (threshold 20 %)"
    )
    undo = "To restore: sudo nvidia-smi -i 0 -rac, or sudo nvidia-smi -i 0 -rgc"
    assert said.advice == undo
    assert why(gpu(low))["clocks_set"].advice == undo


def test_of_another_vendor_no_command_of_nvidia_is_offered() -> None:
    low = replace(BUSY, sm_clock_mhz=990, throttle=("applications_clocks_setting",))
    assert "nvidia-smi" not in alert(gpu(low, vendor="amd"), "clocks_set").advice


def test_locked_clocks_are_guessed_and_shown() -> None:
    said = alert(gpu(replace(BUSY, sm_clock_mhz=990)), "low_clocks")
    assert said.message == (
        "GPU 0 runs 50 % below its maximum clock and gives no reason: its clocks may be locked"
    )
    assert said.advice.endswith("sudo nvidia-smi -i 0 -rgc")


# Modes.


def test_ecc_that_is_off_says_how_to_turn_it_on() -> None:
    off = gpu(setup=Setup(ecc=False, ecc_pending=False))
    said = alert(off, "ecc_off")
    assert said.message == "ECC is off on GPU 0: memory errors are not corrected"
    assert said.advice.endswith("sudo nvidia-smi -i 0 -e 1")
    reason = why(off)["ecc_off"]
    assert (reason.is_trouble, reason.advice) == (False, said.advice)


def test_ecc_that_waits_for_a_reboot_says_so() -> None:
    waits = gpu(setup=Setup(ecc=False, ecc_pending=True))
    said = alert(waits, "ecc_off")
    assert said.message == (
        "ECC is off on GPU 0: memory errors are not corrected; it will be on after a reboot"
    )
    assert said.advice == "Reboot when it is not in use."
    assert said.evidence == {"setup.ecc": "off", "setup.ecc_pending": "on"}
    assert "will be on after a reboot" in why(waits)["ecc_off"].sentence


def test_ecc_that_will_be_off_is_a_fact_of_why() -> None:
    found = why(gpu(setup=Setup(ecc=True, ecc_pending=False)))
    assert found["ecc_off"].sentence == "ECC is on for GPU 0, and will be off after a reboot."


@pytest.mark.parametrize("setup", [Setup(), Setup(persistence=True, ecc=True, ecc_pending=True)])
def test_modes_that_are_on_or_unknown_are_not_mentioned(setup: Setup) -> None:
    assert list(why(gpu(setup=setup))) == ["healthy"]


def test_a_slow_start_names_its_seconds() -> None:
    slow = gpu(setup=Setup(persistence=False, start_seconds=4.2))
    said = alert(slow, "persistence_off")
    assert said.message == ("Persistence mode of GPU 0 is off, and its driver took 4.2 s to start")
    assert why(slow)["persistence_off"].confidence_label == "certain"


def test_a_start_that_was_not_measured_is_only_possible() -> None:
    reason = why(gpu(setup=Setup(persistence=False)))["persistence_off"]
    assert (reason.confidence_label, reason.is_trouble) == ("possible", False)


def test_a_quick_start_is_no_reason() -> None:
    assert list(why(gpu(setup=Setup(persistence=False, start_seconds=0.1)))) == ["healthy"]


# Who has a device open.


@pytest.mark.parametrize(
    ("vendor", "files"),
    [("nvidia", "/dev/nvidia*"), ("amd", "/dev/dri/* /dev/kfd"), ("intel", "/dev/dri/*")],
)
def test_advice_names_the_files_of_the_vendor(vendor: str, files: str) -> None:
    held = gpu(replace(BUSY, memory_used_bytes=50 * GIB, utilization_percent=0), vendor=vendor)
    said = alert(held, "unattributed_memory", 700)
    assert said.advice.endswith(f" Find out who has it open: sudo fuser -v {files}")
    assert openers_of(held.device) == f"sudo fuser -v {files}"
    assert why(held)["unattributed_memory"].advice.endswith(f"sudo fuser -v {files}")


def test_time_in_which_the_utilisation_is_unknown_does_not_count() -> None:
    held, used = replace(BUSY, utilization_percent=0), 40 * GIB
    idle = gpu(replace(held, memory_used_bytes=used))
    unknown = gpu(replace(held, memory_used_bytes=used, utilization_percent=None))
    looks = [(20.0 * n, idle if n in (0, 31) else unknown) for n in range(32)]
    assert of(watched(*looks), "unattributed_memory").level is Level.INFO
    idle_again = [(20.0 * n, idle) for n in range(31, 61)]
    assert of(watched(*looks, *idle_again), "unattributed_memory").level is Level.WARNING


def test_the_node_is_judged_by_its_own_thresholds_in_alert_and_why() -> None:
    book = Rulebook(overrides=(Override(device=0, figures={"host_memory_pressure_percent": 90}),))
    work = Process(1, started=AT - 500, memory_bytes=0)
    waits = replace(gpu(replace(BUSY, utilization_percent=0)), processes=(work,))
    host = Host(memory_used_bytes=GIB, memory_total_bytes=4 * GIB, memory_pressure_percent=50.0)
    seen = Snapshot("n", AT, host=host, devices=(waits,))
    assert "host_memory_starves" in {one.code for one in explain([seen], "GPU-0", book)}
    state = step(EMPTY, Observation(seen), Moment(AT, 100.0), book).state
    assert of(state, "host_memory_starves").subject == "node"
