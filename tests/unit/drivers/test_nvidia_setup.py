"""How NVIDIA's driver runs a card, over the stand-in: its modes, its start, and its slot."""

from pathlib import Path

import pytest

from andon.drivers.nvidia import Nvidia, nvml
from andon.model.device import SETUP_VALUES, Setup
from tests.standin import StandIn, StandInMig
from tests.support.clocks import Clock


def setup(nvidia: Nvidia) -> Setup:
    return nvidia.describe(nvidia.open()[0])[0].setup


def test_modes_are_read_as_they_are_set(nvidia: Nvidia, standin: StandIn, clock: Clock) -> None:
    assert setup(nvidia) == Setup(True, True, True, 0.0)
    standin.change(0, persistence=0, ecc_mode=0)
    assert setup(nvidia).persistence is False
    assert setup(nvidia).ecc is True, "read once an hour: only a reboot changes it"
    clock.now += 3600
    assert setup(nvidia) == Setup(False, False, True, 0.0), "and on from the next reboot"


def test_a_mode_that_a_card_does_not_have_is_unknown_and_not_off(
    nvidia: Nvidia, standin: StandIn
) -> None:
    standin.change(0, ecc_mode=None, ecc_pending=None)
    found = setup(nvidia)
    assert (found.persistence, found.ecc, found.ecc_pending) == (True, None, None)
    assert found.missing == dict.fromkeys(("ecc", "ecc_pending"), "not supported by this device")


def test_modes_cost_nothing_at_a_tick(nvidia: Nvidia, standin: StandIn, clock: Clock) -> None:
    card = nvidia.open()[0]
    nvidia.describe(card)
    for _ in range(100):
        clock.now += 1
        nvidia.read(card, clock.now, False)
    calls = standin.calls(0)
    assert calls["nvmlDeviceGetPersistenceMode"] == calls["nvmlDeviceGetEccMode"] == 1


def test_a_slow_start_of_the_driver_is_measured(
    nvidia: Nvidia, standin: StandIn, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_start(wake_all: bool) -> None:
        clock.now += 4.2
        start(wake_all)

    start = nvml.start
    monkeypatch.setattr(nvml, "start", slow_start)
    assert setup(nvidia).start_seconds == 4.2


def test_a_part_of_a_card_has_no_modes_of_its_own(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(0, mig_mode=1, migs=(StandInMig("MIG-1"),))
    part = nvidia.describe(nvidia.open()[0])[1]
    assert set(part.setup.missing.values()) == {"not reported for a MIG instance"}
    assert set(part.setup.missing) == set(SETUP_VALUES)


def test_the_slot_is_the_port_above_the_card(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path
) -> None:
    port = tmp_path / "sys/devices/pci0000:16/0000:16:01.0"
    (port / "0000:1b:00.0").mkdir(parents=True)
    (port / "max_link_speed").write_text("16.0 GT/s PCIe\n")
    (port / "max_link_width").write_text("8\n")
    named = tmp_path / "sys/bus/pci/devices/0000:1b:00.0"
    named.parent.mkdir(parents=True)
    named.symlink_to(port / "0000:1b:00.0")
    limits = nvidia.describe(nvidia.open()[0])[0].limits
    assert (limits.pcie_generation, limits.pcie_width) == (5, 16)
    assert (limits.pcie_slot_generation, limits.pcie_slot_width) == (4, 8)


def test_a_slot_that_the_kernel_does_not_show_is_unknown(nvidia: Nvidia) -> None:
    limits = nvidia.describe(nvidia.open()[0])[0].limits
    assert (limits.pcie_slot_generation, limits.pcie_slot_width) == (None, None)
