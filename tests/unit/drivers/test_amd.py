"""AMD's devices, over constructed machines: every value, every gap, and cards that sleep."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.drivers.amd import Amd, kfd, metrics
from andon.drivers.amd.card import parse_errors, parse_fastest, parse_list
from andon.drivers.shared.kernel import ASLEEP, MOMENT_SECONDS, RESTING
from andon.drivers.shared.sysfs import SysfsValue, Tree
from andon.errors import Gone, Unavailable
from andon.model.device import (
    Card,
    Device,
    MemoryKind,
    Process,
    ProcessKind,
    Reading,
    Sample,
    State,
)
from tests.constructed import Machine, host
from tests.constructed import amd as machines
from tests.constructed.amd import GIB
from tests.constructed.opened import DENIED, Openings
from tests.support.clocks import Clock


class Station:
    """A backend over one machine, asked card by card."""

    def __init__(
        self, root: Path, machine: Machine, refusals: dict[str, int] | None = None
    ) -> None:
        self.root, self.clock = machine.build(root), Clock()
        self.openings = Openings(refusals)
        tree = Tree(self.root, self.openings, self.openings.listing)
        self.backend = Amd(tree=tree, clock=self.clock, sleep=self.clock.sleep)
        self.cards: Sequence[Card] = self.backend.open()

    def device(self, index: int = 0) -> Device:
        return self.backend.describe(self.cards[index])[0]

    def read(self, index: int = 0) -> Reading:
        return self.backend.read(self.cards[index], self.clock.now, False)[0]

    def sample(self, index: int = 0) -> Sample:
        sample = self.read(index).sample
        assert sample is not None
        return sample

    def write(self, address: str, name: str, text: str) -> None:
        (self.root / f"sys/bus/pci/devices/{address}" / name).write_text(text)


def void(_: object) -> None:
    """For a lambda that only does something."""


# A Radeon.


def test_a_radeon_is_described(tmp_path: Path) -> None:
    device = Station(tmp_path, machines.radeon()).device()
    assert device.uuid == "AMD-4a1b2c3d4e5f6071"
    assert device.name == "AMD Radeon RX 7900"
    assert device.pci == machines.RADEON
    assert device.memory_kind is MemoryKind.DEVICE
    assert device.memory_total_bytes == 24 * GIB
    assert device.limits.slowdown_celsius == 100
    assert device.limits.power_default_watts == 339.0
    assert device.limits.sm_clock_mhz == 2482


def test_a_radeon_is_read_in_the_units_of_the_names(tmp_path: Path) -> None:
    sample = Station(tmp_path, machines.radeon()).sample()
    assert sample.utilization_percent == 37
    assert sample.memory_utilization_percent == 12
    assert sample.memory_used_bytes == 6 * GIB
    assert sample.memory_free_bytes == 18 * GIB
    assert (sample.temperature_celsius, sample.memory_temperature_celsius) == (51, 66)
    assert (sample.power_watts, sample.power_limit_watts) == (114.0, 339.0)
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz) == (2304, 1249)
    assert sample.fan_percent == 30


def test_the_link_is_the_one_to_the_host_and_not_the_one_on_the_card(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.radeon())
    sample, limits = station.sample(), station.device().limits
    assert (sample.pcie_generation, sample.pcie_width) == (3, 8)
    assert (limits.pcie_generation, limits.pcie_width) == (4, 16)
    assert (limits.pcie_slot_generation, limits.pcie_slot_width) == (3, 8), "of the port above it"


def test_a_radeon_s_modes_are_unknown_with_a_reason(tmp_path: Path) -> None:
    setup = Station(tmp_path, machines.radeon()).device().setup
    assert (setup.persistence, setup.ecc, setup.ecc_pending) == (None, None, None)
    assert setup.missing["ecc"] == "not read through this backend"


def test_a_radeon_s_processes_come_from_the_kernel_s_list_of_clients(tmp_path: Path) -> None:
    reading = Station(tmp_path, machines.radeon()).read()
    assert [(p.pid, p.kind, p.memory_bytes) for p in reading.processes] == [
        (900, ProcessKind.GRAPHICS, 513 * 1024**2),
        (2100, ProcessKind.COMPUTE, 4 * GIB),
    ]
    assert "processes" not in reading.missing


def test_the_first_reading_tells_each_process_s_share(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.radeon())
    text = machines.fdinfo(machines.RADEON, 77, 4 << 20, 4096, compute=50_009_000, dma=50)
    station.clock.meanwhile = lambda: void((station.root / "proc/2100/fdinfo/5").write_text(text))
    shares = {p.pid: p.utilization_percent for p in station.read().processes}
    assert shares == {900: 0, 2100: 50}
    assert station.clock.slept == [MOMENT_SECONDS]
    station.read()
    assert station.clock.slept == [MOMENT_SECONDS]


def test_a_card_without_differences_is_looked_at_once(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.old_kernel())
    station.read()
    assert station.clock.slept == []


def test_a_name_comes_from_the_card_then_from_the_system_s_list(tmp_path: Path) -> None:
    machine = machines.radeon()
    listed = "# List\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n744C,\tCC,\tOther\n"
    machine.files["usr/share/libdrm/amdgpu.ids"] = listed
    station = Station(tmp_path, machine)
    assert station.device().name == "AMD Radeon RX 7900 XTX"


def test_an_unknown_model_is_named_by_its_number(tmp_path: Path) -> None:
    assert Station(tmp_path, machines.old_kernel()).device().name == "AMD GPU 0x67df"


def test_slow_files_are_never_opened(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    for index in (0, 1):
        station.device(index)
        station.read(index)
    assert not [path for path in station.openings.paths if path.endswith("pcie_bw")]


def test_older_values_say_when_they_were_read(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.instinct())
    station.read()
    station.clock.now += 1
    assert station.sample().read_at == dict.fromkeys(
        ("pcie_generation", "pcie_width", "ecc_uncorrected"), 1000.0
    )
    station.clock.now += 5
    assert station.sample().read_at == {"ecc_uncorrected": 1000.0}


# Instinct.


def test_an_instinct_has_no_edge_so_its_hottest_point_is_its_temperature(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.instinct())
    sample = station.sample()
    assert (sample.temperature_celsius, sample.memory_temperature_celsius) == (71, 62)
    assert station.device().limits.slowdown_celsius == 100
    assert sample.power_watts == 612.0
    assert station.device().name == "AMD Instinct MI300X"


def test_what_an_instinct_does_not_say_has_a_reason(tmp_path: Path) -> None:
    missing = Station(tmp_path, machines.instinct()).read().missing
    assert missing["fan_percent"] == "not reported by this kernel (no pwm1)"
    assert missing["throttle"] == "gpu_metrics 1.5 has no common throttle status"


def test_memory_errors_are_those_that_were_not_corrected(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.instinct())
    assert station.sample(0).ecc_uncorrected == 0
    assert station.sample(1).ecc_uncorrected == 2


def test_rocm_s_processes_are_listed_on_the_card_they_use(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.instinct())
    first, second = station.read(0).processes, station.read(1).processes
    assert [(p.pid, p.kind, p.memory_bytes) for p in first] == [
        (4000, ProcessKind.COMPUTE, 90 * GIB)
    ]
    assert [(p.pid, p.kind) for p in second] == [(4002, ProcessKind.COMPUTE)]


def test_versions_are_the_module_s_own_or_the_kernel_s(tmp_path: Path) -> None:
    own = Station(tmp_path / "a", machines.instinct())
    in_tree = Station(tmp_path / "b", machines.radeon())
    assert own.backend.versions() == {"amdgpu": "6.10.5"}
    assert in_tree.backend.versions() == {"amdgpu": "6.12.0"}


def test_a_process_in_both_lists_is_one_that_computes_with_one_memory() -> None:
    listed = [
        Process(1, ProcessKind.GRAPHICS, memory_bytes=100, utilization_percent=0),
        Process(2, ProcessKind.GRAPHICS, memory_bytes=50, utilization_percent=7),
    ]
    assert list(kfd.merged(listed, {1: 80, 3: 9})) == [
        Process(1, ProcessKind.COMPUTE, memory_bytes=100, utilization_percent=None),
        Process(2, ProcessKind.GRAPHICS, memory_bytes=50, utilization_percent=7),
        Process(3, ProcessKind.COMPUTE, memory_bytes=9),
    ]


def test_partitions_of_a_card_are_found_by_their_slot() -> None:
    location = 3 << 28 | 5 << 8  # the fourth partition of the card on bus 5
    properties = kfd.parse_properties(f"location_id {location}\ndomain 1\nbroken\n")
    assert kfd.address(properties) == "0001:05:00.0"
    assert kfd.address({"location_id": 0}) is None


# A processor with graphics.


def test_a_processor_s_memory_is_both_of_its_pools(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.processor())
    device, sample = station.device(), station.sample()
    assert device.memory_kind is MemoryKind.UNIFIED
    assert device.memory_total_bytes == 15 * GIB + 512 * 1024**2
    assert sample.memory_used_bytes == 1200 * 1024**2
    assert sample.memory_free_bytes == device.memory_total_bytes - 1200 * 1024**2


def test_a_process_on_a_processor_holds_memory_of_both_pools(tmp_path: Path) -> None:
    reading = Station(tmp_path, machines.processor()).read()
    assert [p.memory_bytes for p in reading.processes] == [1000 * 1024**2]


def test_a_processor_without_a_number_of_its_own_is_known_by_its_slot(tmp_path: Path) -> None:
    assert Station(tmp_path, machines.processor()).device().uuid == f"amd@{machines.PROCESSOR}"


# Sleep.


def test_of_a_suspended_card_nothing_but_its_status_is_opened(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    asleep = next(i for i, card in enumerate(station.cards) if card.pci == machines.SECOND)
    for _ in range(3):
        station.backend.glance()
        station.device(asleep)
        reading = station.read(asleep)
        station.clock.now += 30
    assert reading == Reading(f"amd@{machines.SECOND}", state=State.ASLEEP, reason=ASLEEP)
    opened = station.openings.under(f"0000:00:01.1/{machines.SECOND}")
    assert set(opened) == {"power/runtime_status"}
    assert not [path for path in station.openings.paths if "/fdinfo/" in path]


def test_the_other_card_of_that_laptop_is_read(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    awake = next(i for i, card in enumerate(station.cards) if card.pci == machines.PROCESSOR)
    assert station.read(awake).state is State.OK
    opened = station.openings.under(f"0000:00:01.1/{machines.SECOND}")
    assert opened == []


def test_a_card_on_its_way_to_sleep_is_not_called_back(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    station.write(machines.SECOND, "power/runtime_status", "suspending\n")
    assert station.read(0).state is State.ASLEEP


def test_a_card_that_wakes_is_read_and_keeps_its_name_when_it_sleeps_again(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    assert station.read(0).state is State.ASLEEP
    station.write(machines.SECOND, "power/runtime_status", "active\n")
    assert station.read(0).state is State.OK
    awake = station.device(0)
    station.write(machines.SECOND, "power/runtime_status", "suspended\n")
    assert station.device(0) == awake
    assert station.read(0).uuid == awake.uuid == "AMD-0011223344556677"


def idle_for(station: Station, index: int, seconds: int) -> list[Reading]:
    readings = []
    for _ in range(seconds):
        readings.append(station.read(index))
        station.clock.now += 1
    return readings


def test_an_idle_card_that_could_sleep_is_let_go_of(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    station.write(machines.SECOND, "power/runtime_status", "active\n")
    readings = idle_for(station, 0, 20)
    assert readings[0].state is State.OK
    assert readings[-1].state is State.ASLEEP
    assert readings[-1].reason == RESTING
    station.openings.paths.clear()
    station.read(0)
    opened = station.openings.under(f"0000:00:01.1/{machines.SECOND}")
    assert set(opened) == {"power/runtime_status"}


def test_a_card_with_a_screen_is_read_however_idle(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    station.write(machines.SECOND, "power/runtime_status", "active\n")
    station.write(machines.SECOND, "drm/card0/card0-HDMI-A-1/enabled", "enabled\n")
    assert {reading.state for reading in idle_for(station, 0, 40)} == {State.OK}


def test_a_card_that_the_system_never_suspends_is_read_however_idle(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.instinct())
    station.write(machines.INSTINCT[1], "power/control", "on\n")
    assert {reading.state for reading in idle_for(station, 1, 40)} == {State.OK}


def test_work_keeps_a_card_from_being_let_go_of(tmp_path: Path) -> None:
    station = Station(tmp_path, machines.laptop())
    station.write(machines.SECOND, "power/runtime_status", "active\n")
    station.write(machines.SECOND, "gpu_busy_percent", "55\n")
    assert {reading.state for reading in idle_for(station, 0, 40)} == {State.OK}


# Gaps.


def test_an_old_kernel_gives_what_it_has_and_names_what_it_has_not(tmp_path: Path) -> None:
    reading = Station(tmp_path, machines.old_kernel()).read()
    assert reading.sample is not None
    assert reading.sample.temperature_celsius == 44
    assert reading.sample.fan_percent == 30
    assert (
        reading.missing["utilization_percent"]
        == "not reported by this kernel (no gpu_busy_percent)"
    )
    assert reading.missing["memory_used_bytes"] == (
        "not reported by this kernel (no mem_info_vram_used)"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [(DENIED, "no permission"), (errno.EBUSY, "busy"), (errno.EPERM, "does not allow")],
)
def test_a_refused_file_costs_one_value(tmp_path: Path, code: int, words: str) -> None:
    station = Station(tmp_path, machines.radeon(), {"power1_average": code})
    reading = station.read()
    assert reading.sample is not None
    assert reading.sample.power_watts is None
    assert words in reading.missing["power_watts"]
    assert reading.sample.temperature_celsius == 51


def test_a_card_that_is_pulled_out_is_gone(tmp_path: Path) -> None:
    import shutil

    station = Station(tmp_path, machines.radeon())
    station.read()
    shutil.rmtree((tmp_path / f"sys/bus/pci/devices/{machines.RADEON}").resolve())
    with pytest.raises(Gone, match="no longer lists"):
        station.read()


def test_a_machine_without_amd_devices_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="amdgpu"):
        Station(tmp_path, host())


# Parsers.


def test_limiters_have_words() -> None:
    assert metrics.limiter_names(0) == ()
    assert metrics.limiter_names(1 << 0 | 1 << 3) == ("sw_power_cap",)
    assert metrics.limiter_names(1 << 16 | 1 << 36) == ("current_limit", "temperature_limit")
    assert metrics.limiter_names(1 << 47) == ("hw_thermal_slowdown",)


@pytest.mark.parametrize("form", [(1, 3), (2, 2)])
def test_the_throttle_status_stands_where_the_kernel_puts_it(form: tuple[int, int]) -> None:
    table = machines.metrics(*form, status=1 << 16)
    assert metrics.throttle(SysfsValue(table)) == SysfsValue(("current_limit",))
    unfilled = machines.metrics(*form, status=2**64 - 1)
    assert "does not fill in" in metrics.throttle(SysfsValue(unfilled)).reason


def test_a_table_that_is_cut_short_is_no_table() -> None:
    table = machines.metrics(1, 3, 0)
    assert metrics.throttle(SysfsValue(table[:100])).value is None
    assert metrics.throttle(SysfsValue(b"")).reason == "gpu_metrics is truncated"


PARSERS: list[Callable[[str], object]] = [
    kfd.parse_properties,
    parse_fastest,
    lambda text: parse_errors(SysfsValue(text)),
    lambda text: parse_list(text, 0x744C, 0xC8),
]


@given(st.text())
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for parse in PARSERS:
        parse(text)


@given(st.binary())
def test_no_table_makes_it_raise(content: bytes) -> None:
    metrics.throttle(SysfsValue(content))


def test_the_fastest_clock_is_the_highest_of_the_list() -> None:
    assert parse_fastest("0: 500Mhz\n1: 2482Mhz *\n") == 2482
    assert parse_fastest("") is None
