"""Every metric in one table: its name, kind and help, and which value of the model it shows.

The page, the golden exposition, the dashboard and the rules are made from this table. The first
four names are kept ones, per cent included; all later names use base units.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from andon.exporter import spreads
from andon.exporter.spreads import ExportedDevice, SelfReadings
from andon.model.device import Snapshot

UNITS = {
    "bytes": "bytes", "celsius": "°C", "hertz": "Hz", "joules": "J", "percent": "0 to 100",
    "ratio": "0 to 1", "seconds": "s", "watts": "W", "info": "always 1",
}  # fmt: skip


class MetricKind(StrEnum):
    """How a value behaves: it goes up and down, or only up."""

    GAUGE = "gauge"
    COUNTER = "counter"


class When(StrEnum):
    """When a device's metric is there at all."""

    ALWAYS = "always"
    ANSWERED = "answered"  # only with a sample of this round: an old number is none


Read = Callable[[Any], float | None]
Spread = Callable[[Any], Iterable[tuple[str, int]]]
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. `read` gives its one value, or `spread` several, each with labels of its own."""

    name: str
    kind: MetricKind
    help: str
    source: str
    read: Read | None = None
    spread: Spread | None = None
    scale: Scale | None = None
    labels: tuple[str, ...] = ()
    when: When = When.ANSWERED

    @property
    def unit(self) -> str:
        """Its unit in words, which the name ends in."""
        return UNITS.get(self.name.removesuffix("_total").rpartition("_")[2], "")


def _ratio(percent: float) -> float:
    return percent / 100


def _hertz(mhz: float) -> float:
    return mhz * 1_000_000


def _scale_of(name: str, source: str) -> Scale | None:
    """From the model's unit to the metric's, by the names of both."""
    if name.endswith("_ratio") and source.endswith("_percent"):
        return _ratio
    return _hertz if name.endswith("_hertz") and source.endswith("_mhz") else None


def _gauge(name: str, source: str, help: str) -> Metric:  # noqa: A002 - the format's word
    scale = _scale_of(name, source)
    return Metric(name, MetricKind.GAUGE, help, source, attrgetter(source), scale=scale)


def _counter(name: str, source: str, help: str) -> Metric:  # noqa: A002 - the format's word
    return Metric(name, MetricKind.COUNTER, help, source, attrgetter(source))


def _several(
    name: str,
    source: str,
    spread: Spread,
    labels: tuple[str, ...],
    help: str,  # noqa: A002 - the format's word
    when: When = When.ANSWERED,
    kind: MetricKind = MetricKind.GAUGE,
) -> Metric:
    return Metric(name, kind, help, source, spread=spread, labels=labels, when=when)


def _since(seen: ExportedDevice) -> float:
    return seen.status.since


DEVICE: tuple[Metric, ...] = (
    _gauge("gpu_temperature_celsius", "sample.temperature_celsius", "Temperature of the chip."),
    _gauge("gpu_utilization_percent", "sample.utilization_percent",
           "Share of the time in which something ran on the device."),
    _gauge("gpu_memory_used_bytes", "sample.memory_used_bytes",
           "Memory in use, without the driver's reserve."),
    _gauge("gpu_power_watts", "sample.power_watts", "Power drawn by the board."),
    _several("gpu_info", "device", spreads.info,
             ("name", "vendor", "pci", "driver", "parent", "memory_kind", "simulated"),
             "What the device is; parent is the board of a partition.", When.ALWAYS),
    _several("gpu_state", "state", spreads.states, ("state",),
             "1 for the state the device is in, 0 for the others.", When.ALWAYS),
    Metric("gpu_state_since_timestamp_seconds", MetricKind.GAUGE,
           "When the device came into its state.", "since", _since, when=When.ALWAYS),
    _gauge("gpu_memory_total_bytes", "device.memory_total_bytes", "Memory of the device."),
    _gauge("gpu_memory_free_bytes", "sample.memory_free_bytes", "Memory that can be allocated."),
    _gauge("gpu_memory_reserved_bytes", "sample.memory_reserved_bytes",
           "Memory that the driver keeps for itself."),
    _gauge("gpu_memory_unattributed_bytes", "memory_unattributed_bytes",
           "Memory in use that no process explains."),
    _gauge("gpu_memory_utilization_ratio", "sample.memory_utilization_percent",
           "Share of the time in which memory was read or written."),
    _gauge("gpu_memory_temperature_celsius", "sample.memory_temperature_celsius",
           "Temperature of the memory."),
    _gauge("gpu_slowdown_temperature_celsius", "device.limits.slowdown_celsius",
           "Temperature at which the device slows itself down."),
    _gauge("gpu_power_limit_watts", "sample.power_limit_watts", "Power limit in force."),
    _gauge("gpu_power_default_limit_watts", "device.limits.power_default_watts",
           "Power limit that the device was made for."),
    _counter("gpu_energy_joules_total", "sample.energy_joules",
             "Energy used since the driver began to count."),
    _gauge("gpu_fan_ratio", "sample.fan_percent", "Speed of the fan, of its highest."),
    _gauge("gpu_sm_clock_hertz", "sample.sm_clock_mhz", "Clock of the processors."),
    _gauge("gpu_sm_clock_limit_hertz", "device.limits.sm_clock_mhz",
           "Highest clock of the processors."),
    _gauge("gpu_memory_clock_hertz", "sample.memory_clock_mhz", "Clock of the memory."),
    _several("gpu_throttle", "sample.throttle", spreads.throttles, ("reason",),
             "1 while this reason holds the clocks down, else 0."),
    _gauge("gpu_encoder_ratio", "sample.encoder_percent", "Use of the video encoder."),
    _gauge("gpu_decoder_ratio", "sample.decoder_percent", "Use of the video decoder."),
    _gauge("gpu_sm_active_ratio", "sample.sm_active_percent",
           "Share of the processors that worked; read while somebody watches."),
    _gauge("gpu_tensor_active_ratio", "sample.tensor_active_percent",
           "Share of the tensor units that worked; read while somebody watches."),
    _gauge("gpu_pcie_generation", "sample.pcie_generation", "PCIe generation in use."),
    _gauge("gpu_pcie_generation_limit", "device.limits.pcie_generation",
           "Highest PCIe generation of the device."),
    _gauge("gpu_pcie_width", "sample.pcie_width", "PCIe lanes in use."),
    _gauge("gpu_pcie_width_limit", "device.limits.pcie_width", "PCIe lanes of the device."),
    _counter("gpu_ecc_uncorrected_errors_total", "sample.ecc_uncorrected",
             "Memory errors that could not be corrected."),
    _gauge("gpu_performance_state", "sample.performance_state",
           "Performance state: 0 is the fastest."),
    _several("gpu_processes", "processes", spreads.processes, ("kind",),
             "Processes on the device."),
    _several("gpu_user_processes", "processes.user", spreads.user_processes, ("user",),
             "Processes on the device by user; beyond the largest ones as (others)."),
    _several("gpu_user_memory_bytes", "processes.memory_bytes", spreads.user_memory, ("user",),
             "Memory held on the device by user; beyond the largest ones as (others)."),
)  # fmt: skip
"""Rows of one device: each is read from its `DeviceStatus`, seen through `spreads.Seen`."""


def _age(own: SelfReadings) -> float:
    return max(0.0, own.now - own.snapshot.at)


def _devices(snapshot: Snapshot) -> float:
    return len(snapshot.devices)


NODE: tuple[Metric, ...] = (
    _several("node_info", "node", spreads.node, ("node", "version"),
             "The node, and the version of andon on it."),
    _several("version_info", "versions", spreads.versions, ("component", "version"),
             "Versions of drivers and libraries."),
    Metric("devices", MetricKind.GAUGE, "Devices known on this node, whatever their state.",
           "devices",
           _devices),
    _gauge("simulated", "simulated", "1 where the devices are simulated: no number here is real."),
    _several("source_failed", "faults", spreads.faults, ("source",),
             "1 for a vendor that cannot be read as a whole, else 0."),
    _gauge("node_cpu_ratio", "host.cpu_percent", "Use of all processors of the node."),
    _gauge("node_memory_used_bytes", "host.memory_used_bytes", "Memory of the node in use."),
    _gauge("node_memory_total_bytes", "host.memory_total_bytes", "Memory of the node."),
    _gauge("node_load_1m", "host.load_1m", "Load of the node over the last minute."),
    _several("node_disk_used_bytes", "host.disk.used_bytes", spreads.disk_used, ("mount",),
             "Space in use on a local file system."),
    _several("node_disk_total_bytes", "host.disk.total_bytes", spreads.disk_total, ("mount",),
             "Space on a local file system."),
    _several("node_network_received_bytes_total", "host.network.received_bytes", spreads.received,
             ("interface",), "Bytes received.", kind=MetricKind.COUNTER),
    _several("node_network_sent_bytes_total", "host.network.sent_bytes", spreads.sent,
             ("interface",), "Bytes sent.", kind=MetricKind.COUNTER),
)  # fmt: skip
"""Rows of the node: each is read from the `Snapshot`."""

ITSELF: tuple[Metric, ...] = (
    _gauge("snapshot_timestamp_seconds", "snapshot.at", "When these values were read."),
    Metric("snapshot_age_seconds", MetricKind.GAUGE, "How old these values are.",
           "now - snapshot.at",
           _age),
)  # fmt: skip
COSTS: tuple[Metric, ...] = (
    _counter("snapshots_total", "costs.snapshots", "Looks at the devices."),
    _counter("missed_snapshots_total", "costs.missed",
             "Looks that came too late and were left out."),
    _counter("impossible_readings_total", "costs.impossible",
             "Values that cannot be, such as 4294967295 %, and are shown as unknown."),
    _counter("sampler_cpu_seconds_total", "costs.sampler_cpu_seconds",
             "Processor time of the sampler itself."),
    _counter("sampler_wall_seconds_total", "costs.sampler_wall_seconds",
             "Time of the sampler itself, without waiting."),
    _counter("reader_cpu_seconds_total", "costs.reader_cpu_seconds",
             "Processor time of the readers, the driver's calls included."),
    _counter("reader_wall_seconds_total", "costs.reader_wall_seconds",
             "Time that the readers took, the driver's calls included."),
    _gauge("reader_last_snapshot_seconds", "costs.reader_last_wall_seconds",
           "Time that the readers took for the latest look."),
)  # fmt: skip
SERVICE: tuple[Metric, ...] = (
    _counter("dropped_snapshots_total", "service.dropped",
             "Snapshots that were replaced before anybody took them."),
    _counter("scrapes_total", "service.scrapes", "Answers given to scrapers before this one."),
    _counter("scrape_failures_total", "service.failures",
             "Requests that got an error or were cut off."),
    _counter("scrape_seconds_total", "service.seconds", "Time spent on making answers."),
)  # fmt: skip
"""Rows of andon itself: read from `spreads.Own`, as far as its parts are known."""

ALL = (*DEVICE, *NODE, *ITSELF, *COSTS, *SERVICE)
