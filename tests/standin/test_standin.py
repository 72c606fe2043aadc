"""The stand-in library itself: it reports what is set, fails as configured, counts its calls."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.support.replaced import answers

from . import build as build_it
from . import crash, delay, error, hang_file, hung, init_fails, lost, not_supported
from .build import LIBRARY, BuildError
from .control import StandIn
from .node import StandInMig, StandInProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is an ELF library")

POWER = "nvmlDeviceGetPowerUsage"


def code_of(function: Callable[..., object], *arguments: object, **options: object) -> int:
    """Return the NVML error a call raises, or 0."""
    try:
        function(*arguments, **options)
    except importlib.import_module("pynvml").NVMLError as reason:
        return int(reason.value)
    return 0


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that must become true, unless something is broken."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.001)


def in_thread(
    function: Callable[..., object], *arguments: object
) -> tuple[threading.Thread, SimpleNamespace]:
    """Start a call that may block; its error lands in `.code`."""
    outcome = SimpleNamespace(code=None)

    def work() -> None:
        outcome.code = code_of(function, *arguments)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, outcome


def run(library: Path, standin: StandIn, body: str) -> "subprocess.Popen[bytes]":
    """Start another process that has the library as `lib` and the first device as `device`."""
    start = (
        f"import ctypes; lib = ctypes.CDLL({str(library / LIBRARY)!r}); lib.nvmlInit_v2()\n"
        "device, out = ctypes.c_void_p(), ctypes.c_uint()\n"
        "lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))\n"
    )
    command = [sys.executable, "-S", "-E", "-c", start + body]
    return subprocess.Popen(command, env=standin.environment(library))


# ---- Values ----


def test_one_healthy_device_is_shown_when_no_folder_is_named(
    loaded: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STANDIN_FOLDER")
    loaded.nvmlInit()
    assert loaded.nvmlDeviceGetCount() == 1
    assert loaded.nvmlDeviceGetName(loaded.nvmlDeviceGetHandleByIndex(0)) == "NVIDIA H200"
    loaded.nvmlShutdown()


def test_a_device_shows_the_numbers_it_was_described_with(
    nvml: ModuleType, standin: StandIn
) -> None:
    standin.change(1, temperature=71, power_mw=512_000, fan=40, sm_clock=1700, clock_reasons=0x40)
    device = nvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml.nvmlDeviceGetTemperature(device, 0) == 71
    assert nvml.nvmlDeviceGetTemperatureV(device, 0) == 71
    assert nvml.nvmlDeviceGetTemperatureThreshold(device, 1) == 89
    assert nvml.nvmlDeviceGetPowerUsage(device) == 512_000
    assert nvml.nvmlDeviceGetFanSpeed(device) == 40
    assert nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM) == 1700
    assert nvml.nvmlDeviceGetCurrentClocksEventReasons(device) == 0x40
    assert nvml.nvmlDeviceGetCudaComputeCapability(device) == (9, 0)
    assert nvml.nvmlDeviceGetPciInfo(device).busId == "00000000:43:00.0"


def test_a_number_that_is_none_is_not_supported(nvml: ModuleType, standin: StandIn) -> None:
    standin.change(0, temperature=None, memory_temperature=None)
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    assert code_of(nvml.nvmlDeviceGetTemperature, device, 0) == 3
    assert code_of(nvml.nvmlDeviceGetFanSpeed, device) == 3
    assert nvml.nvmlDeviceGetFieldValues(device, [82])[0].nvmlReturn == 3


def test_a_device_is_found_by_index_bus_id_and_uuid(nvml: ModuleType, standin: StandIn) -> None:
    described = standin.node[2]
    for device in (
        nvml.nvmlDeviceGetHandleByIndex(2),
        nvml.nvmlDeviceGetHandleByPciBusId(described.bus_id.encode()),
        nvml.nvmlDeviceGetHandleByUUID(described.uuid.encode()),
    ):
        assert nvml.nvmlDeviceGetUUID(device) == described.uuid
        assert nvml.nvmlDeviceGetIndex(device) == 2
    assert code_of(nvml.nvmlDeviceGetHandleByIndex, 4) == 2
    assert code_of(nvml.nvmlDeviceGetHandleByUUID, b"GPU-none") == 6


def test_memory_has_its_reserved_part_apart_only_in_the_second_version(
    nvml: ModuleType, standin: StandIn
) -> None:
    standin.change(0, total=1000, reserved=100, used=300)
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    first = nvml.nvmlDeviceGetMemoryInfo(device)
    second = nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)
    assert (first.used, first.free) == (400, 600)
    assert (second.reserved, second.used, second.free) == (100, 300, 600)


def test_a_device_with_unified_memory_supports_neither_memory_query(
    nvml: ModuleType, standin: StandIn
) -> None:
    standin.change(0, unified=True)
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    assert code_of(nvml.nvmlDeviceGetMemoryInfo, device) == 3
    assert code_of(nvml.nvmlDeviceGetMemoryInfo, device, version=nvml.nvmlMemory_v2) == 3


def test_processes_are_listed_by_kind_with_memory_or_without(
    nvml: ModuleType, standin: StandIn
) -> None:
    many = tuple(StandInProcess(pid, memory=pid) for pid in range(1, 127))
    rest = (StandInProcess(500, None, "graphics", 30), StandInProcess(501, kind="mps"))
    standin.change(0, processes=many + rest)
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    listed = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    assert [(process.pid, process.usedGpuMemory) for process in listed] == [
        (process.pid, process.memory) for process in many
    ]
    assert len(nvml.nvmlDeviceGetComputeRunningProcesses_v2(device)) == len(many)
    assert nvml.nvmlDeviceGetGraphicsRunningProcesses(device)[0].usedGpuMemory is None
    assert nvml.nvmlDeviceGetMPSComputeRunningProcesses(device)[0].pid == 501
    samples = nvml.nvmlDeviceGetProcessUtilization(device, 0)
    assert [(sample.pid, sample.smUtil) for sample in samples] == [(500, 30)]


def test_a_mig_instance_has_memory_and_processes_but_no_sensors(
    nvml: ModuleType, standin: StandIn
) -> None:
    standin.change(
        0,
        mig_mode=1,
        migs=(
            StandInMig("MIG-a", gi=7, processes=(StandInProcess(11),)),
            StandInMig("MIG-b", gi=8, used=5, processes=(StandInProcess(12),)),
        ),
    )
    parent = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlDeviceGetMigMode(parent) == [1, 1]
    instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 1)
    assert nvml.nvmlDeviceGetUUID(instance) == "MIG-b"
    assert nvml.nvmlDeviceGetName(instance) == "NVIDIA H200 MIG 1g.18gb"
    assert nvml.nvmlDeviceGetGpuInstanceId(instance) == 8
    assert nvml.nvmlDeviceGetMemoryInfo(instance).used == 5
    assert [item.pid for item in nvml.nvmlDeviceGetComputeRunningProcesses(instance)] == [12]
    assert [item.gpuInstanceId for item in nvml.nvmlDeviceGetComputeRunningProcesses(parent)] == [
        7,
        8,
    ]
    assert code_of(nvml.nvmlDeviceGetPowerUsage, instance) == 3
    assert code_of(nvml.nvmlDeviceGetUtilizationRates, instance) == 3
    assert code_of(nvml.nvmlDeviceGetUtilizationRates, parent) == 3
    assert code_of(nvml.nvmlDeviceGetMigDeviceHandleByIndex, parent, 2) == 6
    back = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
    assert nvml.nvmlDeviceGetIndex(back) == 0


def test_energy_grows_with_the_power_and_never_falls_when_the_power_does(
    nvml: ModuleType, standin: StandIn
) -> None:
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    standin.change(0, power_mw=2_000_000_000)
    before = nvml.nvmlDeviceGetTotalEnergyConsumption(device)
    until(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(device) > before + 1000)
    high = nvml.nvmlDeviceGetTotalEnergyConsumption(device)
    standin.change(0, power_mw=1)
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(device) >= high
    standin.change(0, energy_mj=77)
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(device) == 77


def test_gpm_metrics_come_from_two_samples(nvml: ModuleType, standin: StandIn) -> None:
    standin.change(0, gpm={2: 61.5})
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice == 1
    get = nvml.c_nvmlGpmMetricsGet_t()
    get.version, get.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, 2
    get.metrics[0].metricId, get.metrics[1].metricId = 2, 3
    get.sample1, get.sample2 = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
    nvml.nvmlGpmSampleGet(device, get.sample1)
    nvml.nvmlGpmSampleGet(device, get.sample2)
    nvml.nvmlGpmMetricsGet(get)
    assert (get.metrics[0].nvmlReturn, get.metrics[0].value) == (0, 61.5)
    assert get.metrics[1].nvmlReturn == 3
    nvml.nvmlGpmSampleFree(get.sample1)
    nvml.nvmlGpmSampleFree(get.sample2)


def test_an_xid_reaches_those_who_registered_for_its_device(
    nvml: ModuleType, standin: StandIn
) -> None:
    standin.xid(1, 13)
    events = nvml.nvmlEventSetCreate()
    device = nvml.nvmlDeviceGetHandleByIndex(1)
    nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
    assert code_of(nvml.nvmlEventSetWait_v2, events, 0) == nvml.NVML_ERROR_TIMEOUT
    standin.xid(0, 31)
    standin.xid(1, 79)
    event = nvml.nvmlEventSetWait_v2(events, 1000)
    assert (event.eventData, event.device.contents is not None) == (79, True)
    nvml.nvmlEventSetFree(events)


def test_a_wait_for_events_ends_with_one_or_with_a_fault(
    nvml: ModuleType, standin: StandIn
) -> None:
    events = nvml.nvmlEventSetCreate()
    device = nvml.nvmlDeviceGetHandleByIndex(2)
    kinds = nvml.nvmlDeviceGetSupportedEventTypes(device)
    assert kinds == nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
    nvml.nvmlDeviceRegisterEvents(device, kinds, events)
    thread, outcome = in_thread(nvml.nvmlEventSetWait_v2, events, 60_000)
    standin.ecc(2)
    thread.join(60)
    assert outcome.code == 0
    thread, outcome = in_thread(nvml.nvmlEventSetWait_v2, events, 60_000)
    with standin.broken(error(15, "nvmlEventSetWait_v2")):
        thread.join(60)
    assert outcome.code == 15
    nvml.nvmlEventSetFree(events)


def test_devices_out_of_pci_order_are_refused(standin: StandIn) -> None:
    with pytest.raises(ValueError, match="PCI order"):
        standin.write(StandIn.devices(2)[::-1])


# ---- Faults ----


def test_calls_before_init_and_after_the_last_shutdown_are_refused(loaded: ModuleType) -> None:
    assert code_of(loaded.nvmlDeviceGetCount) == 1
    loaded.nvmlInit()
    loaded.nvmlInit()
    loaded.nvmlShutdown()
    assert loaded.nvmlDeviceGetCount() == 4
    loaded.nvmlShutdown()
    assert code_of(loaded.nvmlDeviceGetCount) == 1
    assert code_of(loaded.nvmlShutdown) == 1


def test_a_lost_device_fails_every_call_and_the_others_none(
    nvml: ModuleType, standin: StandIn
) -> None:
    first, second = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    with standin.broken(lost(1)):
        assert code_of(nvml.nvmlDeviceGetPowerUsage, second) == 15
        assert code_of(nvml.nvmlDeviceGetUUID, second) == 15
        assert code_of(nvml.nvmlDeviceGetPowerUsage, first) == 0
        assert code_of(nvml.nvmlDeviceGetHandleByIndex, 1) == 0
    with standin.broken(lost(1, handle=True)):
        assert code_of(nvml.nvmlDeviceGetHandleByIndex, 1) == 15
        assert code_of(nvml.nvmlDeviceGetHandleByIndex, 0) == 0
    assert code_of(nvml.nvmlDeviceGetPowerUsage, second) == 0


def test_a_hung_device_blocks_until_lifted_while_another_answers(
    nvml: ModuleType, standin: StandIn
) -> None:
    first, second = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    with standin.broken(hung(device=1)):
        thread, outcome = in_thread(nvml.nvmlDeviceGetPowerUsage, second)
        until(lambda: standin.faulted(1) == {POWER: 1})
        assert nvml.nvmlDeviceGetPowerUsage(first) == 76_000
        assert thread.is_alive()
        assert standin.calls(1)[POWER] == 1
    thread.join(60)
    assert outcome.code == 0


def test_when_all_is_hung_even_init_blocks(loaded: ModuleType, standin: StandIn) -> None:
    with standin.broken(hung()):
        thread, outcome = in_thread(loaded.nvmlInit)
        until(standin.faulted)
        assert thread.is_alive()
    thread.join(60)
    assert outcome.code == 0
    loaded.nvmlShutdown()


def test_a_call_that_hangs_on_a_file_waits_in_the_kernel(
    nvml: ModuleType, standin: StandIn, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    device = nvml.nvmlDeviceGetHandleByIndex(1)
    with standin.broken(hang_file(pipe, device=1)):
        thread, outcome = in_thread(nvml.nvmlDeviceGetPowerUsage, device)
        until(lambda: standin.faulted(1))
        assert thread.is_alive()
        with pipe.open("rb") as reader:
            assert reader.read() == b"hang\n"
        thread.join(60)
    assert outcome.code == 0


def test_functions_can_be_unsupported_or_fail_with_any_code(
    nvml: ModuleType, standin: StandIn
) -> None:
    devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    faults = not_supported(POWER, device=0), error(999, "nvmlDeviceGetName")
    with standin.broken(*faults):
        powers = [code_of(nvml.nvmlDeviceGetPowerUsage, device) for device in devices]
        names = [code_of(nvml.nvmlDeviceGetName, device) for device in devices]
    assert powers == [3, 0]
    assert names == [999, 999]


def test_after_a_driver_reload_calls_need_another_init(nvml: ModuleType, standin: StandIn) -> None:
    standin.uninitialise()
    assert code_of(nvml.nvmlDeviceGetCount) == 1
    with standin.broken(init_fails(18)):
        assert code_of(nvml.nvmlInit) == 18
        assert code_of(nvml.nvmlDeviceGetCount) == 1
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 4


def test_a_removed_device_is_gone_at_the_next_init(nvml: ModuleType, standin: StandIn) -> None:
    standin.change(1, removed=True)
    assert nvml.nvmlDeviceGetCount() == 4
    old = nvml.nvmlDeviceGetHandleByIndex(1)
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 3
    device = nvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml.nvmlDeviceGetUUID(device) == standin.node[2].uuid
    assert code_of(nvml.nvmlDeviceGetUUID, old) == 2


def test_a_delay_makes_only_the_named_function_slow(nvml: ModuleType, standin: StandIn) -> None:
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    with standin.broken(delay(20_000, POWER)):
        begin = time.monotonic()
        nvml.nvmlDeviceGetName(device)
        middle = time.monotonic()
        nvml.nvmlDeviceGetPowerUsage(device)
        end = time.monotonic()
    assert end - middle >= 0.02
    assert middle - begin < end - middle


def test_a_crash_kills_the_first_caller_or_every_one(library: Path, standin: StandIn) -> None:
    body = "lib.nvmlDeviceGetPowerUsage(device, ctypes.byref(out))"
    with standin.broken(crash(POWER)):
        assert run(library, standin, "").wait() == 0
        assert run(library, standin, body).wait() == -signal.SIGSEGV
        assert run(library, standin, body).wait() == 0
    with standin.broken(crash(POWER, device=0, once=False)):
        both = [run(library, standin, body) for _ in range(2)]
        assert [process.wait() for process in both] == [-signal.SIGSEGV] * 2


# ---- Counts ----


def test_calls_are_counted_by_function_device_and_second(
    nvml: ModuleType, standin: StandIn
) -> None:
    first, second = (nvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
    begin = int(time.time()) - 1
    for _ in range(3):
        nvml.nvmlDeviceGetPowerUsage(first)
    nvml.nvmlDeviceGetPowerUsage(second)
    assert standin.calls()[POWER] == 4
    assert standin.calls(1)[POWER] == 1
    seconds = standin.calls_per_second(POWER)
    assert sum(seconds.values()) == 4
    assert begin <= min(seconds) <= max(seconds) <= time.time()
    assert sum(standin.calls_per_second(POWER, 0).values()) == 3
    standin.reset_calls()
    assert standin.calls() == {}
    assert standin.calls_per_second(POWER) == {}


def test_without_seconds_the_totals_are_still_counted(
    loaded: ModuleType, standin: StandIn, tmp_path: Path
) -> None:
    totals = StandIn(tmp_path / "standin", per_second=False)
    loaded.nvmlInit()
    loaded.nvmlShutdown()
    assert totals.calls()["nvmlShutdown"] == 1
    assert totals.calls_per_second("nvmlShutdown") == {}


def test_the_flags_of_init_are_recorded(loaded: ModuleType, standin: StandIn) -> None:
    loaded.nvmlInitWithFlags(2)
    loaded.nvmlShutdown()
    assert standin.calls()["nvmlInitWithFlags:2"] == 1


def test_two_processes_share_the_counters_and_the_faults(library: Path, standin: StandIn) -> None:
    body = (
        "for _ in range(1000): lib.nvmlDeviceGetPowerUsage(device, ctypes.byref(out))\n"
        "while lib.nvmlDeviceGetName(device, ctypes.create_string_buffer(96), 96) != 15: pass"
    )
    both = [run(library, standin, body) for _ in range(2)]
    until(lambda: standin.calls(0).get(POWER) == 2000)
    assert [process.poll() for process in both] == [None, None]
    with standin.broken(lost(0)):
        assert [process.wait(60) for process in both] == [0, 0]
    assert standin.faulted(0)["nvmlDeviceGetName"] == 2


# ---- Build ----


def test_a_second_build_does_nothing(library: Path) -> None:
    before = (library / LIBRARY).stat().st_mtime_ns
    assert build_it(library) == library
    assert (library / LIBRARY).stat().st_mtime_ns == before


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(BuildError, match=r"install gcc, or .*ziglang"):
        build_it(tmp_path)


def test_a_missing_header_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "importlib.metadata", "files", None)
    with pytest.raises(BuildError, match="pip install nvidia-nvml-dev"):
        build_it(tmp_path, compiler=("cc",))
