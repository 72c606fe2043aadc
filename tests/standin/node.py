"""The stand-in's node: its devices, their MIG instances and processes."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import fields, replace

Kind = Literal["compute", "graphics", "mps"]

GIB = 1 << 30
_NAMESPACE = uuid.UUID("8b6f1c52-5d0e-4f3a-9c37-2f6f0a1d4e75")
# The bus numbers of the eight GPUs of an HGX H200 board.
_BUSES = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)


def made_up_uuid(prefix: str, *parts: int) -> str:
    """A UUID that looks real and is the same on every run."""
    return f"{prefix}-{uuid.uuid5(_NAMESPACE, f'{prefix}{parts}')}"


class StandInProcess(Struct, frozen=True):
    """One process on a device. `memory` None: NVML says "not available"; `sm` None: no sample."""

    pid: int
    memory: int | None = GIB
    kind: Kind = "compute"
    sm: int | None = None


class StandInMig(Struct, frozen=True):
    """One MIG instance of a device whose `mig_mode` is 1."""

    uuid: str
    name: str = "NVIDIA H200 MIG 1g.18gb"
    total: int = 18 * GIB
    used: int = 0
    gi: int = 0
    ci: int = 0
    slices: int = 1
    processes: tuple[StandInProcess, ...] = ()


class StandInDevice(Struct, frozen=True):
    """One device, by default an idle H200. A number set to None: NVML says "not supported"."""

    uuid: str
    bus_id: str
    serial: str = ""
    name: str = "NVIDIA H200"
    minor: int | None = 0
    brand: int | None = 14
    architecture: int | None = 9
    capability_major: int | None = 9
    capability_minor: int | None = 0

    total: int = 150754820096
    reserved: int = 669515776
    used: int = 0
    unified: bool = False
    bar1_total: int | None = 256 * GIB
    bar1_used: int | None = 1 << 20

    gpu_utilisation: int | None = 0
    memory_utilisation: int | None = 0
    encoder: int | None = 0
    decoder: int | None = 0

    temperature: int | None = 34
    memory_temperature: int | None = 38
    shutdown_temperature: int | None = 92
    slowdown_temperature: int | None = 89
    max_operating_temperature: int | None = 87
    max_memory_temperature: int | None = 95

    power_mw: int | None = 76_000
    power_limit_mw: int | None = 700_000
    enforced_limit_mw: int | None = 700_000
    default_limit_mw: int | None = 700_000
    min_limit_mw: int | None = 200_000
    max_limit_mw: int | None = 700_000
    energy_mj: int | None = None  # None: it follows the power
    fan: int | None = None
    fans: int | None = None

    sm_clock: int | None = 345
    memory_clock: int | None = 3201
    video_clock: int | None = 765
    max_sm_clock: int | None = 1980
    max_memory_clock: int | None = 3201
    max_video_clock: int | None = 1545
    clock_reasons: int | None = 1  # GPU idle
    pstate: int | None = 0

    pcie_gen: int | None = 5
    pcie_width: int | None = 16
    max_pcie_gen: int | None = 5
    max_pcie_width: int | None = 16
    pcie_tx_kb: int | None = 850
    pcie_rx_kb: int | None = 1250
    nvlink_tx_kb: int | None = None
    nvlink_rx_kb: int | None = None

    nvlinks: int | None = None  # active ones; None: it has none at all
    nvlink_peer: int | None = None  # the device at their other end; None: an NVSwitch
    pcie_switch: int | None = None  # None: NVML does not know the topology
    socket: int | None = None  # its NUMA node
    first_cpu: int | None = None  # the CPUs next to it
    last_cpu: int | None = None

    ecc_mode: int | None = 1
    ecc_pending: int | None = 1  # from the next reboot on
    ecc_corrected: int | None = 0
    ecc_uncorrected: int | None = 0
    ecc_corrected_aggregate: int | None = 0
    ecc_uncorrected_aggregate: int | None = 0
    remapped_correctable: int | None = 0
    remapped_uncorrectable: int | None = 0
    remap_pending: int | None = 0
    remap_failed: int | None = 0

    persistence: int | None = 1
    compute_mode: int | None = 0
    display_active: int | None = 0
    mig_mode: int | None = 0
    removed: bool = False  # missing after the next first Init

    migs: tuple[StandInMig, ...] = ()
    processes: tuple[StandInProcess, ...] = ()
    fields: Mapping[int, int] = field(default_factory=dict)
    gpm: Mapping[int, float] = field(default_factory=lambda: {1: 0.0, 2: 0.0, 3: 0.0, 5: 0.0})

    @property
    def bus(self) -> tuple[int, ...]:
        """The bus id as numbers, in the driver's enumeration order."""
        return tuple(int(part, 16) for part in self.bus_id.replace(".", ":").split(":"))


class Counters(Struct, frozen=True):
    """The growing counters of a device at one moment."""

    since_ns: int = 0
    energy_mj: int = 0
    pcie_tx_bytes: int = 0
    pcie_rx_bytes: int = 0
    nvlink_tx_counted_kb: int = 0
    nvlink_rx_counted_kb: int = 0

    def at(self, now_ns: int, device: StandInDevice) -> "Counters":
        """The counters at `now_ns`, at the current rates of `device`."""
        seconds = (now_ns - self.since_ns) / 1e9
        return Counters(
            now_ns,
            self.energy_mj + int((device.power_mw or 0) * seconds),
            self.pcie_tx_bytes + int((device.pcie_tx_kb or 0) * 1024 * seconds),
            self.pcie_rx_bytes + int((device.pcie_rx_kb or 0) * 1024 * seconds),
            self.nvlink_tx_counted_kb + int((device.nvlink_tx_kb or 0) * seconds),
            self.nvlink_rx_counted_kb + int((device.nvlink_rx_kb or 0) * seconds),
        )


def boxed_device(index: int, nvswitch: bool = False) -> StandInDevice:
    """The device at `index` of a box with eight: two PCIe switches of four, each at a socket of its
    own; NVLink between neighbours (0 and 1, 2 and 3, …), or between all through NVSwitches."""
    socket = index // 4
    return replace(
        default_device(index),
        nvlinks=18 if nvswitch else 4,
        nvlink_peer=None if nvswitch else index ^ 1,
        pcie_switch=socket,
        socket=socket,
        first_cpu=32 * socket,
        last_cpu=32 * socket + 31,
    )


def default_device(index: int) -> StandInDevice:
    """The device at `index` of an idle node."""
    return StandInDevice(
        uuid=made_up_uuid("GPU", index),
        bus_id=f"{index // len(_BUSES):08X}:{_BUSES[index % len(_BUSES)]:02X}:00.0",
        serial=f"16541230{index:05d}",
        minor=index,
    )


_NOT_NUMBERS = {"uuid", "bus_id", "serial", "name", "energy_mj", "migs", "processes"}
_NOT_NUMBERS |= {"fields", "gpm"}


def device_lines(device: StandInDevice, counters: Counters) -> Iterable[str]:
    """The lines of the control file about one device."""
    yield "device"
    for key in ("uuid", "bus_id", "serial", "name"):
        yield f"{key} {getattr(device, key)}"
    for key in (item.name for item in fields(device) if item.name not in _NOT_NUMBERS):
        number = getattr(device, key)
        yield f"{key} {-1 if number is None else int(number)}"
    yield f"since_ns {counters.since_ns}"
    yield f"energy_mj {counters.energy_mj if device.energy_mj is None else device.energy_mj}"
    yield f"energy_grows {int(device.energy_mj is None)}"
    yield f"pcie_tx_bytes {counters.pcie_tx_bytes}"
    yield f"pcie_rx_bytes {counters.pcie_rx_bytes}"
    yield f"nvlink_tx_counted_kb {counters.nvlink_tx_counted_kb}"
    yield f"nvlink_rx_counted_kb {counters.nvlink_rx_counted_kb}"
    for identity, value in device.fields.items():
        yield f"field {identity} {value}"
    for identity, metric in device.gpm.items():
        yield f"gpm {identity} {metric}"
    yield from (_process_line(process, -1) for process in device.processes)
    for place, mig in enumerate(device.migs):
        yield f"mig {mig.uuid} {mig.total} {mig.used} {mig.gi} {mig.ci} {mig.slices} {mig.name}"
        yield from (_process_line(process, place) for process in mig.processes)


def _process_line(process: StandInProcess, mig: int) -> str:
    memory, sm = (-1 if value is None else value for value in (process.memory, process.sm))
    return f"process {process.pid} {process.kind} {memory} {sm} {mig}"


def node_lines(driver_version: str, nvml_version: str, cuda_version: int) -> Iterable[str]:
    """The lines of the control file about the node itself."""
    yield f"driver_version {driver_version}"
    yield f"nvml_version {nvml_version}"
    yield f"cuda_version {cuda_version}"


def default_control() -> str:
    """The description of a node with one healthy device, for when no folder is set."""
    lines = [*node_lines(*DEFAULT_VERSIONS), *device_lines(default_device(0), Counters())]
    return "".join(f"{line}\n" for line in lines)


DEFAULT_VERSIONS = ("580.95.05", "13.580.95.05", 13000)
