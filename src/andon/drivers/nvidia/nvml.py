"""The only importer of NVIDIA's library: each call as a plain function of plain values."""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import pynvml
from msgspec import Struct

from andon.drivers.nvidia import trouble
from andon.drivers.nvidia.calls import LibraryCall, LongNumber, Number
from andon.model.place import SWITCH
from andon.model.throttling import NVIDIA_REASONS

Handle = Any
Error: TypeAlias = pynvml.NVMLError

NO_INSTANCE: Final = 0xFFFFFFFF
_NO_ATTACH: Final = 2
_SM, _MEMORY = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
_GPM_SM, _GPM_TENSOR = 2, 5
_CPU_MASK_WORDS, _NODE_MASK_WORDS = 16, 1  # of 64 bits each


def start(wake_all: bool) -> None:
    """Initialises NVML. Without `wake_all`, no card is attached until it is used."""
    if wake_all:
        pynvml.nvmlInit()
    else:
        pynvml.nvmlInitWithFlags(_NO_ATTACH)


def stop() -> None:
    pynvml.nvmlShutdown()


def count() -> int:
    return int(pynvml.nvmlDeviceGetCount())


def versions() -> dict[str, str]:
    cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    return {
        "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
        "nvml": _text(pynvml.nvmlSystemGetNVMLVersion()),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
    }


def handle_by_index(index: int) -> Handle:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def handle_by_pci(pci: str) -> Handle:
    return pynvml.nvmlDeviceGetHandleByPciBusId(pci.encode())


# Static values.


def uuid(handle: Handle) -> str:
    return _text(pynvml.nvmlDeviceGetUUID(handle))


def name(handle: Handle) -> str:
    return _text(pynvml.nvmlDeviceGetName(handle))


def pci(handle: Handle) -> str:
    """Returns the address in the kernel's format: four digits of domain, lower case."""
    return _address(pynvml.nvmlDeviceGetPciInfo(handle))


def _address(info: Any) -> str:
    tail = _text(info.busId).split(":", 1)[1]
    return f"{info.domain:04x}:{tail}".lower()


def slowdown_celsius(handle: Handle) -> int:
    return int(
        pynvml.nvmlDeviceGetTemperatureThreshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
    )


def power_default_watts(handle: Handle) -> float:
    return float(pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)) / 1000


def pcie_generation_limit(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))


def pcie_width_limit(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle))


def persistence(handle: Handle) -> bool:
    return bool(pynvml.nvmlDeviceGetPersistenceMode(handle))


def ecc_modes(handle: Handle) -> tuple[bool, bool]:
    """Returns whether ECC is on now, and from the next reboot on."""
    now, pending = pynvml.nvmlDeviceGetEccMode(handle)
    return bool(now), bool(pending)


def sm_clock_limit_mhz(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetMaxClockInfo(handle, _SM))


# Where a device is.


def nvlinks(handle: Handle) -> dict[str, int]:
    """Returns the active links by the other end's PCI address, or `switch` for an NVSwitch."""
    found: dict[str, int] = {}
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not pynvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
            end = _other_end(handle, link)
        except Error as error:
            if link and error.value in (trouble.INVALID_ARGUMENT, trouble.NOT_SUPPORTED):
                break  # it has no more links
            raise
        found[end] = found.get(end, 0) + 1
    return found


def _other_end(handle: Handle, link: int) -> str:
    kind = int(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    return _address(pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))


def common_ancestor(handle: Handle, other: Handle) -> int:
    """NVML's level of what two devices have in common: 10 is one PCIe switch, 50 the system."""
    return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(handle, other))


def near_cpus(handle: Handle) -> frozenset[int]:
    return _bits(pynvml.nvmlDeviceGetCpuAffinity(handle, _CPU_MASK_WORDS))


def near_nodes(handle: Handle) -> frozenset[int]:
    scope = pynvml.NVML_AFFINITY_SCOPE_NODE
    return _bits(pynvml.nvmlDeviceGetMemoryAffinity(handle, _NODE_MASK_WORDS, scope))


def _bits(words: Sequence[int]) -> frozenset[int]:
    whole = sum(int(word) << (64 * place) for place, word in enumerate(words))
    return frozenset(bit for bit in range(whole.bit_length()) if whole >> bit & 1)


# Dynamic values.


def function(name: str) -> Any:
    """Returns a function of the library by name; an older driver may not have it."""
    try:
        return getattr(pynvml.nvmlLib, name)
    except AttributeError:
        raise Error(trouble.FUNCTION_NOT_FOUND) from None


_UTILIZATION: Final = LibraryCall(function, Error, "nvmlDeviceGetUtilizationRates")
_MEMORY_INFO: Final = LibraryCall(function, Error, "nvmlDeviceGetMemoryInfo_v2")
_TEMPERATURE: Final = Number(function, Error, "nvmlDeviceGetTemperature")
_POWER: Final = Number(function, Error, "nvmlDeviceGetPowerUsage")
_CLOCK: Final = Number(function, Error, "nvmlDeviceGetClockInfo")
_REASONS: Final = LongNumber(function, Error, "nvmlDeviceGetCurrentClocksThrottleReasons")
_Rates = ctypes.c_uint * 2


def utilization(handle: Handle) -> tuple[int, int]:
    rates = _Rates()
    _UTILIZATION.into(rates, handle)
    return rates[0], rates[1]


class _MemoryAnswer(ctypes.Structure):
    """A memory answer; the library's own class takes five times as long."""

    _fields_ = (
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    )


class MemoryInfo(Struct, frozen=True):
    total: int
    used: int
    free: int
    reserved: int | None


def memory(handle: Handle) -> MemoryInfo:
    """The memory, with the driver's reserve as a separate value; older drivers count it as used."""
    info = _MemoryAnswer(pynvml.nvmlMemory_v2)
    try:
        _MEMORY_INFO.into(info, handle)
    except Error as error:
        if error.value not in (trouble.FUNCTION_NOT_FOUND, 25):
            raise
        old = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return MemoryInfo(old.total, old.used, old.free, None)
    return MemoryInfo(info.total, info.used, info.free, info.reserved)


def temperature_celsius(handle: Handle) -> int:
    return _TEMPERATURE.of(handle, pynvml.NVML_TEMPERATURE_GPU)


def power_watts(handle: Handle) -> float:
    return _POWER.of(handle) / 1000


def power_limit_watts(handle: Handle) -> float:
    return float(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle)) / 1000


def sm_clock_mhz(handle: Handle) -> int:
    return _CLOCK.of(handle, _SM)


def memory_clock_mhz(handle: Handle) -> int:
    return _CLOCK.of(handle, _MEMORY)


def throttle(handle: Handle) -> tuple[str, ...]:
    return _throttle_names(_REASONS.of(handle))


@lru_cache(maxsize=64)
def _throttle_names(mask: int) -> tuple[str, ...]:
    return tuple(reason.name for reason in NVIDIA_REASONS if mask & (reason.nvml_bit or 0))


def performance_state(handle: Handle) -> int | None:
    state = int(pynvml.nvmlDeviceGetPerformanceState(handle))
    return None if state == pynvml.NVML_PSTATE_UNKNOWN else state


def encoder_percent(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetEncoderUtilization(handle)[0])


def decoder_percent(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetDecoderUtilization(handle)[0])


def fan_percent(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetFanSpeed(handle))


def pcie_generation(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle))


def pcie_width(handle: Handle) -> int:
    return int(pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle))


def memory_temperature_celsius(handle: Handle) -> int:
    field = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])[0]
    if field.nvmlReturn:
        raise Error(field.nvmlReturn)
    return int(field.value.uiVal)


class LinkField(NamedTuple):
    """A counter of NVML: its field number, its scope, and its unit."""

    id: int
    scope: int = 0
    bytes_each: int = 1


class LinkCount(NamedTuple):
    """A counter in bytes, and when the driver read it."""

    value: int
    at: float


_ALL_LINKS: Final = 0xFFFFFFFF
TRAFFIC_FIELDS: Final[Mapping[str, LinkField]] = {
    "pcie_received_bytes_per_second": LinkField(pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES),
    "pcie_sent_bytes_per_second": LinkField(pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES),
    "nvlink_received_bytes_per_second": LinkField(
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS, 1024
    ),
    "nvlink_sent_bytes_per_second": LinkField(
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS, 1024
    ),
}
"""The counters that a rate is derived from."""
WRAPPING: Final = tuple(name for name in TRAFFIC_FIELDS if name.startswith("pcie"))


_FIELD: Final = struct.Struct("=IIqqIIQ")
"""One field value: its number and scope, time, latency, type, code, and a union of eight bytes."""


def counts(handle: Handle, fields: Sequence[LinkField]) -> list[LinkCount | Error]:
    """Returns several counters from one call; an error in place of each that the driver did not
    give.

    The library's own function sets and reads each field by itself, which takes longer than a
    driver's answer: the request is prepared once, and copied, because a call may be stuck.
    """
    question = _question(tuple(fields))
    answers = ctypes.create_string_buffer(question, len(question))
    code = function("nvmlDeviceGetFieldValues")(handle, len(fields), answers)
    if code:
        raise Error(code)
    return [_count(*pair) for pair in zip(fields, _FIELD.iter_unpack(answers.raw), strict=True)]


@lru_cache(maxsize=64)
def _question(fields: tuple[LinkField, ...]) -> bytes:
    return b"".join(_FIELD.pack(field.id, field.scope, 0, 0, 0, 0, 0) for field in fields)


def _count(field: LinkField, answer: tuple[int, ...]) -> LinkCount | Error:
    _, _, at, _, kind, code, value = answer
    if code:
        return Error(code)
    if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        value &= 0xFFFFFFFF  # the rest of the union is not written
    return LinkCount(value * field.bytes_each, at / 1e6)


def energy_joules(handle: Handle) -> float:
    return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000


def utilization_ring(handle: Handle) -> list[tuple[float, float]]:
    """Returns the readings that the driver still has, oldest first: time and percent."""
    try:
        _, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
    except Error as error:
        if error.value == trouble.NOT_FOUND:  # it has none yet
            return []
        raise
    found = [(one.timeStamp / 1e6, float(one.sampleValue.uiVal)) for one in samples]
    return sorted((at, percent) for at, percent in found if at > 0 and percent <= 100)


def ecc_uncorrected(handle: Handle) -> int:
    """Returns the uncorrected errors since the driver was loaded."""
    return int(
        pynvml.nvmlDeviceGetTotalEccErrors(
            handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
    )


# Processes.


def process_utilization(handle: Handle, since: int) -> tuple[dict[int, int], int]:
    """Returns each process's share since a driver timestamp, and the next call's timestamp."""
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(handle, since)
    except Error as error:
        if error.value == trouble.NOT_FOUND:  # nothing ran: zero, not a failure
            return {}, since
        raise
    newest = {s.pid: s for s in sorted(samples, key=lambda s: int(s.timeStamp))}
    stamp = max((int(s.timeStamp) for s in samples), default=since)
    return {int(pid): min(100, int(s.smUtil)) for pid, s in newest.items() if pid}, stamp


# Events that a device reports.

XID_EVENT: Final = 0x8
ECC_EVENTS: Final = {
    0x2: "an uncorrectable error in the device's memory",
    0x200: "a storm of corrected errors in the device's memory",
    0x400: "faulty memory was taken out of use",
    0x800: "faulty memory could not be taken out of use",
    0x1000: "poisoned data reached one process's memory",
    0x2000: "poisoned data reached the device's memory, and work on it is lost",
}


class RawEvent(Struct, frozen=True):
    """One event: its device (a number for the handle), kind and code."""

    device: int
    kind: int
    data: int
    instance: int | None


def place(handle: Handle) -> int:
    """Returns the number that identifies a handle in a `RawEvent`."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def open_events() -> Any:
    return pynvml.nvmlEventSetCreate()


def register(events: Any, handle: Handle) -> bool:
    """Registers for the events we use; False if the device supports none of them."""
    wanted = XID_EVENT | sum(ECC_EVENTS)
    kinds = wanted & int(pynvml.nvmlDeviceGetSupportedEventTypes(handle))
    if kinds:
        pynvml.nvmlDeviceRegisterEvents(handle, kinds, events)
    return bool(kinds)


def wait_event(events: Any, timeout_seconds: float) -> RawEvent | None:
    """Returns the next event; None after the timeout. Does not block other threads."""
    try:
        event = pynvml.nvmlEventSetWait_v2(events, round(timeout_seconds * 1000))
    except Error as error:
        if error.value == trouble.TIMEOUT:
            return None
        raise
    instance = None if event.gpuInstanceId == NO_INSTANCE else int(event.gpuInstanceId)
    return RawEvent(place(event.device), int(event.eventType), int(event.eventData), instance)


def close_events(events: Any) -> None:
    pynvml.nvmlEventSetFree(events)


# Partitions.


def mig_enabled(handle: Handle) -> bool:
    return bool(pynvml.nvmlDeviceGetMigMode(handle)[0])


def mig_handles(handle: Handle) -> list[Handle]:
    found = []
    for index in range(int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        try:
            found.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except Error as error:
            if error.value != trouble.NOT_FOUND:  # an empty slot in the layout
                raise
    return found


# Activity counters (GPM).


_ACTIVITY: Final = LibraryCall(function, Error, "nvmlGpmMetricsGet")


class _Metric(ctypes.Structure):
    _fields_ = pynvml.c_nvmlGpmMetric_t._fields_


class _ActivityQuery(ctypes.Structure):
    """The library's own structure, without its methods around every field."""

    *_head, (_name, _metrics) = pynvml.c_nvmlGpmMetricsGet_t._fields_
    _fields_ = (*_head, (_name, _Metric * _metrics._length_))


def activity_supported(handle: Handle) -> bool:
    return bool(pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)


def activity_sample(handle: Handle) -> Any:
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        pynvml.nvmlGpmSampleGet(handle, sample)
    except Error:
        pynvml.nvmlGpmSampleFree(sample)
        raise
    return sample


def activity_between(earlier: Any, later: Any) -> tuple[float, float]:
    """Returns how busy the SMs and the tensor cores were between two samples, in percent."""
    query = _ActivityQuery(pynvml.NVML_GPM_METRICS_GET_VERSION, 2, earlier, later)
    sm, tensor = query.metrics[0], query.metrics[1]
    sm.metricId, tensor.metricId = _GPM_SM, _GPM_TENSOR
    _ACTIVITY.into(query)
    if code := sm.nvmlReturn or tensor.nvmlReturn:
        raise Error(code)
    return round(sm.value, 1), round(tensor.value, 1)


def activity_free(sample: Any) -> None:
    pynvml.nvmlGpmSampleFree(sample)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
