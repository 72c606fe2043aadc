"""Intel's devices under i915 and xe, over constructed machines."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.drivers.intel import Intel, layout
from andon.drivers.intel.card import COUNTER_RESET, Counter, parse_manager
from andon.drivers.shared.drm import FIRST_READING
from andon.drivers.shared.kernel import ASLEEP, MOMENT_SECONDS
from andon.drivers.shared.sysfs import SysfsValue, Tree
from andon.errors import Unavailable
from andon.model.device import Card, Device, MemoryKind, ProcessKind, Reading, Sample, State
from tests.constructed import Machine, host
from tests.constructed import intel as machines
from tests.constructed.opened import DENIED, Openings
from tests.support.clocks import Clock

ARC = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:03:00.0"


class Station:
    """A backend over one machine."""

    def __init__(
        self, root: Path, machine: Machine, refusals: dict[str, int] | None = None
    ) -> None:
        self.root, self.clock = machine.build(root), Clock()
        self.openings = Openings(refusals)
        tree = Tree(self.root, self.openings, self.openings.listing)
        self.backend = Intel(tree=tree, clock=self.clock, sleep=self.clock.sleep)
        self.cards: Sequence[Card] = self.backend.open()

    def device(self) -> Device:
        return self.backend.describe(self.cards[0])[0]

    def read(self, seconds: float = 0.0) -> Reading:
        self.clock.now += seconds
        return self.backend.read(self.cards[0], self.clock.now, False)[0]

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)


def of(reading: Reading) -> Sample:
    assert reading.sample is not None
    return reading.sample


# xe.


def test_an_arc_is_described(tmp_path: Path) -> None:
    device = Station(tmp_path, machines.arc()).device()
    assert device.uuid == "intel@0000:03:00.0"
    assert device.name == "Intel Arc B580"
    assert device.memory_kind is MemoryKind.DEVICE
    assert device.memory_total_bytes == 12 * machines.GIB
    assert device.limits.sm_clock_mhz == 2850
    assert device.limits.power_default_watts == 190.0
    assert (device.limits.pcie_generation, device.limits.pcie_width) == (4, 8)


def test_an_arc_is_read_in_the_units_of_the_names(tmp_path: Path) -> None:
    sample = of(Station(tmp_path, machines.arc()).read())
    assert sample.memory_used_bytes == 3 * machines.GIB
    assert sample.memory_free_bytes == 9 * machines.GIB
    assert (sample.temperature_celsius, sample.memory_temperature_celsius) == (58, 64)
    assert sample.energy_joules == 5000.0
    assert sample.power_limit_watts == 190.0
    assert sample.sm_clock_mhz == 2400
    assert sample.throttle == ("sw_power_cap",)
    assert (sample.pcie_generation, sample.pcie_width) == (4, 8)


def worked(station: Station) -> None:
    """A tenth of a second at 150 W, of which compute was busy for three quarters."""
    station.write(f"{ARC}/hwmon/hwmon5/energy1_input", "5015000000\n")
    text = machines.xe_fdinfo(9, "2048 MiB", 1_100_000, ccs=76_000, rcs=0, vcs=0)
    station.write("proc/500/fdinfo/5", text)


def test_the_first_reading_tells_power_and_use_from_two_looks(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.arc())
    station.clock.meanwhile = lambda: worked(station)
    reading = station.read()
    assert of(reading).power_watts == 150.0
    assert of(reading).utilization_percent == 75
    assert [process.utilization_percent for process in reading.processes] == [75]
    assert of(reading).at == 1000.0
    assert station.clock.slept == [MOMENT_SECONDS]


def test_later_readings_are_differences_to_the_one_before(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.arc())
    station.read()
    station.write(f"{ARC}/hwmon/hwmon5/energy1_input", "5300000000\n")
    text = machines.xe_fdinfo(9, "2048 MiB", 3_000_000, ccs=1_501_000, rcs=0, vcs=0)
    station.write("proc/500/fdinfo/5", text)
    second = station.read(2.0)
    assert of(second).power_watts == 150.0
    assert of(second).utilization_percent == 75
    process = second.processes[0]
    assert (process.pid, process.kind, process.utilization_percent) == (
        500,
        ProcessKind.COMPUTE,
        75,
    )
    assert process.memory_bytes == 2 * machines.GIB
    assert len(station.clock.slept) == 1


def test_a_card_that_falls_asleep_between_the_two_looks_is_left_alone(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.arc())

    def suspended() -> None:
        station.write(f"{ARC}/power/runtime_status", "suspending\n")
        station.openings.paths.clear()

    station.clock.meanwhile = suspended
    first = station.read()
    assert first.missing["power_watts"] == first.missing["utilization_percent"] == FIRST_READING
    assert set(station.openings.under(f"0000:02:01.0/{machines.ARC}")) == {"power/runtime_status"}
    assert not [path for path in station.openings.paths if "/fdinfo/" in path]


def test_where_processes_are_hidden_the_idle_time_tells_the_use(tmp_path: Path) -> None:
    machine = machines.arc()
    machine.process(600, "somebody-else", {3: ("/dev/dri/renderD128", "")})
    station = Station(tmp_path, machine, {"proc/600/fd": DENIED})
    idle = f"{ARC}/tile0/gt0/gtidle/idle_residency_ms"
    station.clock.meanwhile = lambda: station.write(idle, "100025\n")
    first = station.read()
    assert "not visible" in first.missing["processes"]
    assert of(first).utilization_percent == 75
    station.write(idle, "101025\n")
    assert of(station.read(2.0)).utilization_percent == 50


def test_a_card_s_memory_is_root_s_to_see_and_says_so(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.arc(), {"vram0_mm": DENIED})
    reading = station.read()
    assert of(reading).memory_used_bytes is None
    assert reading.missing["memory_used_bytes"].startswith("no permission to read vram0_mm")
    assert station.device().memory_total_bytes is None
    assert reading.processes[0].memory_bytes == 2 * machines.GIB


def test_a_fan_s_speed_is_not_a_share(tmp_path: Path) -> None:
    reason = Station(tmp_path, machines.arc()).read().missing["fan_percent"]
    assert reason == "the driver reports the fan speed in rpm (fan1_input), not in percent"


def test_a_card_that_measures_its_package_alone_is_read_there(tmp_path: Path) -> None:
    machine = machines.arc()
    del machine.files[f"{ARC}/hwmon/hwmon5/energy1_input"]
    reading = Station(tmp_path, machine).read()
    assert of(reading).energy_joules == 3000.0
    assert reading.missing["power_limit_watts"] == "no sustained limit is set"


def test_sensors_without_labels_are_known_by_their_documented_numbers(tmp_path: Path) -> None:
    machine = machines.arc()
    for sensor in ("temp2", "temp3"):
        del machine.files[f"{ARC}/hwmon/hwmon5/{sensor}_label"]
    sample = of(Station(tmp_path, machine).read())
    assert (sample.temperature_celsius, sample.memory_temperature_celsius) == (58, 64)


# Sleep.


def test_of_a_suspended_arc_nothing_but_its_status_is_opened(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.suspended())
    for _ in range(3):
        station.backend.glance()
        station.device()
        reading = station.read(30.0)
    assert reading == Reading("intel@0000:03:00.0", state=State.ASLEEP, reason=ASLEEP)
    assert station.clock.slept == []
    assert set(station.openings.under(f"0000:02:01.0/{machines.ARC}")) == {"power/runtime_status"}
    assert not [path for path in station.openings.paths if "/fdinfo/" in path]
    assert not [path for path in station.openings.paths if "/debug/" in path]


def test_an_idle_arc_without_a_screen_is_let_go_of(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.arc())
    states = []
    for second in range(20):
        text = machines.xe_fdinfo(9, "2048 MiB", 1_000_000 * (second + 1), ccs=1000, rcs=0)
        station.write("proc/500/fdinfo/5", text)
        states.append(station.read(1.0).state)
    assert states[0] is State.OK
    assert states[-1] is State.ASLEEP


# i915.


def test_integrated_graphics_use_the_system_s_memory(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.integrated())
    device, sample = station.device(), of(station.read())
    assert device.name == "Intel UHD Graphics 770"
    assert device.memory_kind is MemoryKind.UNIFIED
    assert device.memory_total_bytes == 32_000_000 * 1024
    assert sample.memory_used_bytes == 12_000_000 * 1024
    assert sample.memory_free_bytes == 20_000_000 * 1024


def test_integrated_graphics_are_read(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.integrated())
    reading = station.read()
    assert of(reading).sm_clock_mhz == 350
    assert of(reading).throttle == ()
    assert reading.missing["power_watts"] == (
        "this driver has no sensors for this device (no hwmon)"
    )
    assert reading.missing["temperature_celsius"] == reading.missing["power_watts"]
    station.write("proc/700/fdinfo/14", machines.i915_fdinfo(2, 81920, render=1_400_000_000))
    later = station.read(1.0)
    assert of(later).utilization_percent == 40
    assert [(p.pid, p.kind, p.utilization_percent) for p in later.processes] == [
        (700, ProcessKind.GRAPHICS, 40)
    ]
    assert later.processes[0].memory_bytes == 81 * 1024**2  # system0 and stolen


def test_integrated_graphics_with_a_screen_are_never_let_go_of(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.integrated())
    assert {station.read(1.0).state for _ in range(30)} == {State.OK}


def test_throttling_is_told_in_words(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.integrated())
    folder = "sys/bus/pci/devices/0000:00:02.0/drm/card0/gt/gt0"
    for name in ("status", "pl1", "thermal", "prochot", "novelty"):
        station.write(f"{folder}/throttle_reason_{name}", "1\n")
    station.write(f"{folder}/throttle_reason_vr_tdc", "0\n")
    assert of(station.read()).throttle == (
        "novelty",
        "sw_power_cap",
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
    )


def test_an_old_kernel_is_never_taken_for_an_idle_device(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.old_kernel())
    station.read()
    place = "sys/bus/pci/devices/0000:00:02.0/drm/card0/power/rc6_residency_ms"
    station.write(place, "10250\n")
    assert of(station.read(1.0)).utilization_percent == 75
    (tmp_path / place).unlink()
    reading = station.read(1.0)
    assert of(reading).utilization_percent is None
    assert "old fdinfo" in reading.missing["utilization_percent"]


def test_a_machine_without_intel_devices_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="i915 or xe"):
        Station(tmp_path, host())


# Counters and parsers.


def test_a_rate_needs_two_looks_and_a_counter_that_grows() -> None:
    counter = Counter()
    assert counter.rate(SysfsValue(100.0), 1.0).reason == FIRST_READING
    assert counter.rate(SysfsValue(160.0), 3.0) == SysfsValue(30.0)
    assert counter.rate(SysfsValue(10.0), 4.0).reason == COUNTER_RESET
    assert counter.rate(SysfsValue(20.0), 5.0) == SysfsValue(10.0)


def test_a_counter_that_fails_once_starts_again() -> None:
    counter = Counter()
    counter.rate(SysfsValue(100.0), 1.0)
    assert counter.rate(SysfsValue(None, "denied"), 2.0).reason == "denied"
    assert counter.rate(SysfsValue(100.0), 3.0).reason == FIRST_READING


@given(st.text())
def test_no_memory_manager_s_text_makes_it_raise(text: str) -> None:
    for answer in parse_manager(text):
        assert answer.value is not None or answer.reason


def test_every_known_cause_has_a_word() -> None:
    assert set(layout.REASONS.values()) == {
        layout.POWER,
        layout.CURRENT,
        layout.HEAT,
        layout.HOT_SIGNAL,
    }
