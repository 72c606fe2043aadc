"""NVIDIA's backend over the stand-in: its values, its tiers, its errors, its partitions."""

from pathlib import Path

import pytest

from andon.drivers.nvidia import Nvidia
from andon.drivers.nvidia.trouble import ErrorScope, trouble
from andon.errors import AndonError, Denied, Gone, Unavailable
from andon.model.device import MemoryKind, ProcessKind, Reading
from tests.standin import (
    StandIn,
    StandInMig,
    StandInProcess,
    error,
    init_fails,
    lost,
    not_supported,
)
from tests.support.clocks import Clock
from tests.support.rows import rows


def one(nvidia: Nvidia, watched: bool = False) -> Reading:
    card = nvidia.open()[0]
    return nvidia.read(card, 1000.0, watched)[0]


def test_values_carry_their_units(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(
        0,
        used=10 << 30,
        reserved=1 << 30,
        gpu_utilisation=97,
        memory_utilisation=40,
        temperature=71,
        power_mw=691_500,
        enforced_limit_mw=700_000,
        sm_clock=1485,
        memory_clock=3201,
        energy_mj=5_000,
        fan=60,
    )
    sample = one(nvidia).sample
    assert sample is not None
    assert sample.utilization_percent == 97
    assert sample.memory_utilization_percent == 40
    assert sample.memory_used_bytes == 10 << 30
    assert sample.memory_reserved_bytes == 1 << 30
    assert sample.temperature_celsius == 71
    assert sample.power_watts == 691.5
    assert sample.power_limit_watts == 700.0
    assert sample.sm_clock_mhz == 1485
    assert sample.energy_joules == 5.0
    assert sample.fan_percent == 60


def test_the_drivers_own_reserve_is_not_counted_as_used(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(0, used=0, reserved=645 << 20)
    sample = one(nvidia).sample
    assert sample is not None
    assert (sample.memory_used_bytes, sample.memory_reserved_bytes) == (0, 645 << 20)


def test_an_old_driver_without_the_second_memory_call_still_answers(
    nvidia: Nvidia, standin: StandIn
) -> None:
    with standin.broken(error(13, "nvmlDeviceGetMemoryInfo_v2")):
        reading = one(nvidia)
    assert reading.sample is not None
    assert reading.sample.memory_used_bytes is not None
    assert reading.missing["memory_reserved_bytes"] == "not reported by this driver"


def test_facts_are_told_once(nvidia: Nvidia) -> None:
    card = nvidia.open()[0]
    device = nvidia.describe(card)[0]
    assert device.uuid.startswith("GPU-")
    assert device.name == "NVIDIA H200"
    assert device.pci == "0000:1b:00.0"
    assert device.memory_total_bytes == 150754820096
    assert device.limits.slowdown_celsius == 89
    assert device.limits.power_default_watts == 700.0


def test_throttle_reasons_have_names(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(0, clock_reasons=0x4 | 0x40)
    sample = one(nvidia).sample
    assert sample is not None
    assert sample.throttle == ("sw_power_cap", "hw_thermal_slowdown")


def test_no_throttle_reason_is_an_empty_list_and_not_unknown(
    nvidia: Nvidia, standin: StandIn
) -> None:
    standin.change(0, clock_reasons=0)
    sample = one(nvidia).sample
    assert sample is not None
    assert sample.throttle == ()


# Tiers.

TIERS = {
    "nvmlDeviceGetUtilizationRates": 60,
    "nvmlDeviceGetMemoryInfo_v2": 60,
    "nvmlDeviceGetTemperature": 60,
    "nvmlDeviceGetPowerUsage": 60,
    "nvmlDeviceGetEnforcedPowerLimit": 12,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 60,
    "nvmlDeviceGetPerformanceState": 12,
    "nvmlDeviceGetComputeRunningProcesses_v3": 12,  # the memory in use did not change
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 12,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 12,
    "nvmlDeviceGetClockInfo": 120,
    "nvmlDeviceGetFieldValues": 12 + 3,  # memory temperature; traffic, after ten seconds
    "nvmlDeviceGetEncoderUtilization": 12,
    "nvmlDeviceGetDecoderUtilization": 12,
    "nvmlDeviceGetCurrPcieLinkGeneration": 12,
    "nvmlDeviceGetCurrPcieLinkWidth": 1,
    "nvmlDeviceGetTotalEnergyConsumption": 1,
    "nvmlDeviceGetTotalEccErrors": 1,
    "nvmlDeviceGetProcessUtilization": 4,  # two readings: the library asks for the length first
}
"""Calls to one busy device in a minute of ticks."""

NEVER = (
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlGpmSampleGet",
    "nvmlDeviceGetFanSpeed",
)


def minute(nvidia: Nvidia, standin: StandIn, clock: Clock, watched: bool) -> dict[str, int]:
    """The calls of the minute after a device is known; ticks come a little early and late."""
    standin.change(0, processes=(StandInProcess(4711, sm=50),))
    card = nvidia.open()[0]
    nvidia.describe(card)
    nvidia.read(card, clock.now, watched)
    standin.reset_calls()
    start = clock.now
    for tick in range(1, 61):
        clock.now = start + tick + (0.02 if tick % 2 else -0.02)
        nvidia.read(card, clock.now, watched)
    return standin.calls(0)


def test_each_call_is_made_as_often_as_its_tier_says(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    calls = minute(nvidia, standin, clock, watched=False)
    assert calls == TIERS
    assert not set(NEVER) & set(calls)


def test_processes_are_asked_for_at_once_when_the_memory_in_use_changes(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    card = nvidia.open()[0]
    standin.change(0, used=1 << 30, processes=(StandInProcess(4711),))
    nvidia.read(card, clock.now, False)
    clock.now += 1
    standin.change(0, used=3 << 30, processes=(StandInProcess(4711), StandInProcess(4712)))
    reading = nvidia.read(card, clock.now, False)[0]
    assert [process.pid for process in reading.processes] == [4711, 4712]


def test_a_process_list_that_failed_is_asked_for_again_at_the_next_tick(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    card = nvidia.open()[0]
    standin.change(0, processes=(StandInProcess(4711),))
    with standin.broken(error(999, "nvmlDeviceGetComputeRunningProcesses_v3")):
        broken = nvidia.read(card, clock.now, False)[0]
    clock.now += 1
    cured = nvidia.read(card, clock.now, False)[0]
    assert broken.missing["processes"] == "the driver reported an unknown error"
    assert [process.pid for process in cured.processes] == [4711]
    assert "processes" not in cured.missing


def test_while_someone_watches_activity_and_shares_are_read_too(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    calls = minute(nvidia, standin, clock, watched=True)
    assert calls["nvmlGpmSampleGet"] == 60
    assert calls["nvmlDeviceGetProcessUtilization"] == 2 * 12


def test_what_is_not_supported_is_not_asked_again(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    with standin.broken(not_supported("nvmlDeviceGetPowerUsage")):
        card = nvidia.open()[0]
        for tick in range(5):
            reading = nvidia.read(card, 1000.0 + tick, False)[0]
    assert standin.calls(0)["nvmlDeviceGetPowerUsage"] == 1
    assert reading.missing["power_watts"] == "not supported by this device"


def test_what_failed_once_is_asked_again(nvidia: Nvidia, standin: StandIn) -> None:
    card = nvidia.open()[0]
    with standin.broken(error(999, "nvmlDeviceGetTemperature")):
        broken = nvidia.read(card, 1000.0, False)[0]
    cured = nvidia.read(card, 1001.0, False)[0]
    assert broken.sample is not None
    assert broken.sample.temperature_celsius is None
    assert broken.sample.utilization_percent == 0, "one failed field does not hide the others"
    assert broken.missing["temperature_celsius"] == "the driver reported an unknown error"
    assert cured.sample is not None
    assert cured.sample.temperature_celsius == 34


def test_slow_fields_say_when_they_were_read(nvidia: Nvidia, clock: Clock) -> None:
    card = nvidia.open()[0]
    nvidia.read(card, 1000.0, False)
    clock.now += 1
    sample = nvidia.read(card, 1001.0, False)[0].sample
    assert sample is not None
    assert sample.read_at["energy_joules"] == 1000.0
    assert "utilization_percent" not in sample.read_at


def test_the_energy_is_read_when_a_process_comes_or_leaves_and_not_oftener(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    card, seen = nvidia.open()[0], []
    for tick, pids in enumerate([(), (4711,), (4711,), (4711, 4712), (4712,), (4712,), ()]):
        standin.change(0, used=len(pids) << 30, processes=tuple(map(StandInProcess, pids)))
        sample = nvidia.read(card, 1000.0 + tick, False)[0].sample
        assert sample is not None
        seen.append("energy_joules" not in sample.read_at)
        clock.now += 1
    assert seen == [True, True, False, True, True, False, True]
    assert standin.calls(0)["nvmlDeviceGetTotalEnergyConsumption"] == sum(seen)


# Activity.


def test_activity_needs_two_looks_and_someone_who_watches(
    nvidia: Nvidia, standin: StandIn, clock: Clock
) -> None:
    standin.change(0, gpm={2: 96.5, 5: 93.25})
    card = nvidia.open()[0]
    first = nvidia.read(card, 1000.0, True)[0]
    second = nvidia.read(card, 1001.0, True)[0]
    unwatched = nvidia.read(card, 1002.0, False)[0]
    assert "two readings" in first.missing["sm_active_percent"]
    assert second.sample is not None
    assert second.sample.sm_active_percent == 96.5
    assert second.sample.tensor_active_percent == 93.2
    assert unwatched.missing["sm_active_percent"] == "read only while someone is watching"


def test_every_activity_sample_is_given_back(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(0, gpm={2: 1.0, 5: 1.0})
    card = nvidia.open()[0]
    for tick in range(10):
        nvidia.read(card, float(tick), True)
    nvidia.read(card, 11.0, False)
    calls = standin.calls()
    assert calls["nvmlGpmSampleAlloc"] == calls["nvmlGpmSampleFree"] == 10


def test_a_card_without_activity_counters_is_asked_once(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(0, gpm={})
    card = nvidia.open()[0]
    for tick in range(5):
        reading = nvidia.read(card, float(tick), True)[0]
    assert reading.missing["tensor_active_percent"] == "not supported by this device"
    assert standin.calls()["nvmlGpmQueryDeviceSupport"] == 1


# Processes.


def test_compute_graphics_and_mps_processes_are_listed_once_each(
    nvidia: Nvidia, standin: StandIn
) -> None:
    standin.change(
        0,
        processes=(
            StandInProcess(1, 10, "compute", sm=70),
            StandInProcess(2, 20, "mps"),
            StandInProcess(3, 30, "graphics"),
            StandInProcess(4, 40, "compute"),
            StandInProcess(4, 40, "graphics"),
        ),
    )
    found = {p.pid: p for p in one(nvidia).processes}
    assert set(found) == {1, 2, 3, 4}
    assert found[1].utilization_percent == 70
    assert found[2].kind is ProcessKind.COMPUTE
    assert found[3].kind is ProcessKind.GRAPHICS
    assert (found[4].kind, found[4].memory_bytes) == (ProcessKind.COMPUTE, 40)


def test_a_process_whose_memory_the_driver_does_not_know_has_none(
    nvidia: Nvidia, standin: StandIn
) -> None:
    standin.change(0, processes=(StandInProcess(1, None),))
    assert one(nvidia).processes[0].memory_bytes is None


def test_more_processes_than_the_buffer_holds_are_all_listed(
    nvidia: Nvidia, standin: StandIn
) -> None:
    standin.change(0, processes=tuple(StandInProcess(pid) for pid in range(1, 121)))
    assert len(one(nvidia).processes) == 120


def test_nothing_ran_is_zero_and_not_unknown(nvidia: Nvidia, standin: StandIn) -> None:
    standin.change(0, processes=(StandInProcess(1, sm=None),))
    assert one(nvidia).processes[0].utilization_percent == 0


def test_a_process_list_that_fails_says_so(nvidia: Nvidia, standin: StandIn) -> None:
    with standin.broken(error(4, "nvmlDeviceGetComputeRunningProcesses_v3")):
        assert one(nvidia).missing["processes"] == "no permission"


# Errors.


@pytest.mark.parametrize(
    ("code", "words", "hint", "kind"),
    [
        (9, "the NVIDIA driver is not loaded", "modprobe", Unavailable),
        (18, "versions differ", "reboot", Unavailable),
        (4, "no permission to use the NVIDIA driver", "/dev/nvidiactl", Denied),
        (999, "unknown error", "dmesg", Unavailable),
        (17, "blocked", "cgroup", Unavailable),
        (77, "error 77", "dmesg", Unavailable),
    ],
)
def test_each_failure_to_start_has_its_own_words(
    nvidia: Nvidia, standin: StandIn, code: int, words: str, hint: str, kind: type[AndonError]
) -> None:
    with standin.broken(init_fails(code)), pytest.raises(kind) as caught:
        nvidia.open()
    assert words in caught.value.reason
    assert hint in caught.value.hint


def test_a_mismatch_names_the_version_in_the_kernel(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path
) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.124.06  Wed Feb 26\n")
    with standin.broken(init_fails(18)), pytest.raises(Unavailable) as caught:
        nvidia.open()
    assert "the kernel has 570.124.06" in caught.value.reason


def test_a_lost_card_is_gone_and_the_others_are_not(nvidia: Nvidia, standin: StandIn) -> None:
    cards = nvidia.open()
    with standin.broken(lost(2)):
        with pytest.raises(Gone, match="fallen off the bus"):
            nvidia.read(cards[2], 1000.0, False)
        assert nvidia.read(cards[3], 1000.0, False)[0].sample is not None
    assert nvidia.read(cards[2], 1001.0, False)[0].sample is not None


def test_a_driver_that_was_reloaded_is_told_from_a_lost_card(
    nvidia: Nvidia, standin: StandIn
) -> None:
    card = nvidia.open()[0]
    nvidia.read(card, 1000.0, False)
    standin.uninitialise()
    with pytest.raises(Unavailable):
        nvidia.read(card, 1001.0, False)


def test_no_gpu_behind_a_running_driver_is_said(nvidia: Nvidia, standin: StandIn) -> None:
    standin.write(StandIn.devices(1, removed=True))
    with pytest.raises(Unavailable, match="finds no GPU"):
        nvidia.open()


@rows("code", [*range(1, 31), 999, 12345])
def test_every_code_has_words(code: int) -> None:
    assert trouble(code).reason
    assert trouble(code, starting=True).reach is ErrorScope.VENDOR


# Partitions and shared memory.


def test_mig_instances_are_devices_with_their_own_memory_and_processes(
    nvidia: Nvidia, standin: StandIn
) -> None:
    instances = (
        StandInMig("MIG-1", used=4 << 30, gi=1, processes=(StandInProcess(11, 4 << 30),)),
        StandInMig("MIG-2", gi=2),
    )
    standin.change(0, mig_mode=1, migs=instances)
    card = nvidia.open()[0]
    board, first, second = nvidia.describe(card)
    assert (first.uuid, first.parent) == ("MIG-1", board.uuid)
    readings = {r.uuid: r for r in nvidia.read(card, 1000.0, False)}
    sample = readings["MIG-1"].sample
    assert sample is not None
    assert sample.memory_used_bytes == 4 << 30
    assert sample.power_watts is None, "the board's power is not its instances'"
    assert "MIG" in readings["MIG-1"].missing["power_watts"]
    assert [p.pid for p in readings["MIG-1"].processes] == [11]
    assert readings[second.uuid].processes == ()


def test_unified_memory_is_the_systems_and_says_so(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path
) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
    standin.change(0, unified=True)
    card = nvidia.open()[0]
    assert nvidia.describe(card)[0].memory_kind is MemoryKind.UNIFIED
    assert nvidia.describe(card)[0].memory_total_bytes == 1000 * 1024
    sample = nvidia.read(card, 1000.0, False)[0].sample
    assert sample is not None
    assert sample.memory_used_bytes == 600 * 1024
