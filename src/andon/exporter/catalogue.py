"""Every metric in one table: its name, kind and help, and the value of the model it shows.

The docs page, the golden exposition, the dashboard and the rules are generated from this table. The
first four names are stable ones, percent included; all others use base units.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.exporter import spreads
from andon.exporter.spreads import ExportedDevice, SelfReadings
from andon.model.device import Snapshot


class MetricKind(StrEnum):
    """How a value behaves: it goes up and down, or only up."""

    GAUGE = "gauge"
    COUNTER = "counter"


class ExportWhen(StrEnum):
    """When the metric of a device, or of a hub's node, is exported."""

    ALWAYS = "always"
    ANSWERED = "answered"  # only with a current sample: stale values are not exported


Read = Callable[[Any], float | None]
Spread = Callable[[Any], Iterable[tuple[str, int]]]
Scale = Callable[[float], float]


class Metric(Struct, frozen=True):
    """One row. `read` returns one value, or `spread` several, each with its own labels."""

    name: str
    kind: MetricKind
    help: str
    source: str
    read: Read | None = None
    spread: Spread | None = None
    scale: Scale | None = None
    labels: tuple[str, ...] = ()
    when: ExportWhen = ExportWhen.ANSWERED


def _ratio(percent: float) -> float:
    return percent / 100


def _hertz(mhz: float) -> float:
    return mhz * 1_000_000


def _scale_of(name: str, source: str) -> Scale | None:
    """Converts the model's unit to the metric's, by the names of both."""
    if name.endswith("_ratio") and source.endswith("_percent"):
        return _ratio
    return _hertz if name.endswith("_hertz") and source.endswith("_mhz") else None


def _gauge(name: str, source: str, help: str) -> Metric:  # noqa: A002 - the format's word
    scale = _scale_of(name, source)
    return Metric(name, MetricKind.GAUGE, help, source, attrgetter(source), scale=scale)


def _always(name: str, source: str, help: str) -> Metric:  # noqa: A002 - the format's word
    return replace(_gauge(name, source, help), when=ExportWhen.ALWAYS)


def _counter(name: str, source: str, help: str) -> Metric:  # noqa: A002 - the format's word
    return Metric(name, MetricKind.COUNTER, help, source, attrgetter(source))


def _several(
    name: str,
    source: str,
    spread: Spread,
    labels: tuple[str, ...],
    help: str,  # noqa: A002 - the format's word
    when: ExportWhen = ExportWhen.ANSWERED,
    kind: MetricKind = MetricKind.GAUGE,
) -> Metric:
    return Metric(name, kind, help, source, spread=spread, labels=labels, when=when)


def _export(
    name: str,
    count: str,
    help: str,  # noqa: A002 - the format's word
    kind: MetricKind = MetricKind.COUNTER,
) -> Metric:
    spread = spreads.exported(count)
    return _several(name, f"counts.exports.{count}", spread, ("export",), help, kind=kind)


def _since(seen: ExportedDevice) -> float:
    return seen.status.since


def _failed_check(seen: ExportedDevice) -> float | None:
    return None if seen.status.check is None else seen.status.check_failed


def _checked_at(seen: ExportedDevice) -> float | None:
    return None if seen.status.check is None else seen.status.check.at


DEVICE: tuple[Metric, ...] = (
    _gauge("gpu_temperature_celsius", "sample.temperature_celsius", "GPU core temperature."),
    _gauge("gpu_utilization_percent", "sample.utilization_percent",
           "Percentage of time that at least one kernel was running."),
    _gauge("gpu_memory_used_bytes", "sample.memory_used_bytes",
           "Memory in use, excluding what the driver reserves."),
    _gauge("gpu_power_watts", "sample.power_watts", "Power draw of the board."),
    _several("gpu_info", "device", spreads.info,
             ("name", "vendor", "pci", "driver", "parent", "memory_kind", "simulated"),
             "Device properties; parent is the UUID of a partition's GPU.", ExportWhen.ALWAYS),
    _several("gpu_state", "state", spreads.states, ("state",),
             "1 for the current state of the device, 0 for the others.", ExportWhen.ALWAYS),
    Metric("gpu_state_since_timestamp_seconds", MetricKind.GAUGE,
           "When the device entered its current state.", "since", _since, when=ExportWhen.ALWAYS),
    _gauge("gpu_memory_total_bytes", "device.memory_total_bytes", "Total memory of the device."),
    _gauge("gpu_memory_free_bytes", "sample.memory_free_bytes", "Memory available for allocation."),
    _gauge("gpu_memory_reserved_bytes", "sample.memory_reserved_bytes",
           "Memory reserved by the driver."),
    _gauge("gpu_memory_unattributed_bytes", "memory_unattributed_bytes",
           "Memory in use that no visible process accounts for."),
    _gauge("gpu_memory_utilization_ratio", "sample.memory_utilization_percent",
           "Fraction of time that memory was read or written."),
    _gauge("gpu_memory_temperature_celsius", "sample.memory_temperature_celsius",
           "Memory temperature."),
    _gauge("gpu_slowdown_temperature_celsius", "device.limits.slowdown_celsius",
           "Temperature at which thermal throttling starts."),
    _gauge("gpu_power_limit_watts", "sample.power_limit_watts", "Current power limit."),
    _gauge("gpu_power_default_limit_watts", "device.limits.power_default_watts",
           "Default power limit."),
    _counter("gpu_energy_joules_total", "sample.energy_joules",
             "Energy used since the driver started counting."),
    _gauge("gpu_fan_ratio", "sample.fan_percent", "Fan speed as a fraction of its maximum."),
    _gauge("gpu_sm_clock_hertz", "sample.sm_clock_mhz", "SM clock."),
    _gauge("gpu_sm_clock_limit_hertz", "device.limits.sm_clock_mhz",
           "Maximum SM clock."),
    _gauge("gpu_memory_clock_hertz", "sample.memory_clock_mhz", "Memory clock."),
    _several("gpu_throttle", "sample.throttle", spreads.throttles, ("reason",),
             "1 while the clocks are throttled for this reason, else 0."),
    _gauge("gpu_encoder_ratio", "sample.encoder_percent", "Utilization of the video encoder."),
    _gauge("gpu_decoder_ratio", "sample.decoder_percent", "Utilization of the video decoder."),
    _gauge("gpu_sm_active_ratio", "sample.sm_active_percent",
           "Fraction of SMs that were active; read only while someone is watching."),
    _gauge("gpu_tensor_active_ratio", "sample.tensor_active_percent",
           "Fraction of tensor cores that were active; read only while someone is watching."),
    _gauge("gpu_pcie_generation", "sample.pcie_generation", "Current PCIe generation."),
    _gauge("gpu_pcie_generation_limit", "device.limits.pcie_generation",
           "Maximum PCIe generation of the device."),
    _gauge("gpu_pcie_width", "sample.pcie_width", "Current number of PCIe lanes."),
    _gauge("gpu_pcie_width_limit", "device.limits.pcie_width",
           "Maximum number of PCIe lanes of the device."),
    _gauge("gpu_pcie_slot_generation_limit", "device.limits.pcie_slot_generation",
           "Maximum PCIe generation of the slot."),
    _gauge("gpu_pcie_slot_width_limit", "device.limits.pcie_slot_width",
           "Maximum number of PCIe lanes of the slot."),
    _gauge("gpu_pcie_received_bytes_per_second", "sample.pcie_received_bytes_per_second",
           "Received over PCIe since the last reading."),
    _gauge("gpu_pcie_sent_bytes_per_second", "sample.pcie_sent_bytes_per_second",
           "Sent over PCIe since the last reading."),
    _gauge("gpu_nvlink_received_bytes_per_second", "sample.nvlink_received_bytes_per_second",
           "Received over all NVLinks since the last reading."),
    _gauge("gpu_nvlink_sent_bytes_per_second", "sample.nvlink_sent_bytes_per_second",
           "Sent over all NVLinks since the last reading."),
    _gauge("gpu_ecc_enabled", "device.setup.ecc", "1 if ECC is on, 0 if it is off."),
    _gauge("gpu_ecc_pending_enabled", "device.setup.ecc_pending",
           "1 if ECC will be on after the next reboot, else 0."),
    _gauge("gpu_persistence_enabled", "device.setup.persistence",
           "1 if persistence mode is on, 0 if it is off."),
    _gauge("gpu_driver_start_seconds", "device.setup.start_seconds",
           "How long the driver took to start when andon opened it."),
    Metric("gpu_check_failed", MetricKind.GAUGE,
           "1 if the latest andon check found it broken, else 0.", "check", _failed_check,
           when=ExportWhen.ALWAYS),
    Metric("gpu_check_timestamp_seconds", MetricKind.GAUGE, "When it was last checked.",
           "check.at", _checked_at, when=ExportWhen.ALWAYS),
    _counter("gpu_ecc_uncorrected_errors_total", "sample.ecc_uncorrected",
             "Uncorrectable memory errors."),
    _gauge("gpu_performance_state", "sample.performance_state",
           "Performance state: 0 is the fastest."),
    _several("gpu_processes", "processes", spreads.processes, ("kind",),
             "Processes on the device."),
    _several("gpu_user_processes", "processes.user", spreads.user_processes, ("user",),
             "Processes on the device by user; the smallest are summed as (others)."),
    _several("gpu_user_memory_bytes", "processes.memory_bytes", spreads.user_memory, ("user",),
             "Memory used on the device by user; the smallest are summed as (others)."),
)  # fmt: skip
"""Rows of one device: each is read from a `spreads.ExportedDevice`."""


def _age(own: SelfReadings) -> float:
    return max(0.0, own.now - own.snapshot.at)


def _devices(snapshot: Snapshot) -> float:
    return len(snapshot.devices)


NODE: tuple[Metric, ...] = (
    _several("node_info", "node", spreads.node, ("node", "version"),
             "The node and its version of andon."),
    _several("version_info", "versions", spreads.versions, ("component", "version"),
             "Versions of drivers and libraries."),
    Metric("devices", MetricKind.GAUGE, "Devices known on this node, in any state.",
           "devices",
           _devices),
    _gauge("simulated", "simulated", "1 if the devices are simulated: no value is real."),
    _several("source_failed", "faults", spreads.faults, ("source",),
             "1 if a vendor's devices cannot be read at all, else 0."),
    _gauge("node_cpu_ratio", "host.cpu_percent", "CPU utilization of the node."),
    _gauge("node_memory_used_bytes", "host.memory_used_bytes", "Memory in use on the node."),
    _gauge("node_memory_total_bytes", "host.memory_total_bytes", "Total memory of the node."),
    _gauge("node_memory_pressure_ratio", "host.memory_pressure_percent",
           "Share of the last ten seconds in which a process waited for memory."),
    _gauge("node_load_1m", "host.load_1m", "Load average of the node over one minute."),
    _several("node_disk_used_bytes", "host.disk.used_bytes", spreads.disk_used, ("mount",),
             "Used space of a local file system."),
    _several("node_disk_total_bytes", "host.disk.total_bytes", spreads.disk_total, ("mount",),
             "Size of a local file system."),
    _gauge("node_disk_read_bytes_per_second", "host.disk_read_bytes_per_second",
           "Read from all disks since the last reading."),
    _gauge("node_disk_written_bytes_per_second", "host.disk_written_bytes_per_second",
           "Written to all disks since the last reading."),
    _gauge("node_network_received_bytes_per_second", "host.network_received_bytes_per_second",
           "Received by all network cards since the last reading."),
    _gauge("node_network_sent_bytes_per_second", "host.network_sent_bytes_per_second",
           "Sent by all network cards since the last reading."),
    _several("node_network_received_bytes_total", "host.network.received_bytes", spreads.received,
             ("interface",), "Bytes received.", kind=MetricKind.COUNTER),
    _several("node_network_sent_bytes_total", "host.network.sent_bytes", spreads.sent,
             ("interface",), "Bytes sent.", kind=MetricKind.COUNTER),
)  # fmt: skip
"""Rows of the node: each is read from the `Snapshot`."""

ITSELF: tuple[Metric, ...] = (
    _gauge("snapshot_timestamp_seconds", "snapshot.at", "When these values were read."),
    Metric("snapshot_age_seconds", MetricKind.GAUGE, "Age of these values.",
           "now - snapshot.at",
           _age),
)  # fmt: skip
COSTS: tuple[Metric, ...] = (
    _counter("snapshots_total", "costs.snapshots", "Snapshots taken of the devices."),
    _counter("missed_snapshots_total", "costs.missed",
             "Snapshots skipped because the one before took too long."),
    _counter("impossible_readings_total", "costs.impossible",
             "Impossible values, such as 4294967295 %, reported as unknown."),
    _counter("sampler_cpu_seconds_total", "costs.sampler_cpu_seconds",
             "CPU time of the sampler itself."),
    _counter("sampler_wall_seconds_total", "costs.sampler_wall_seconds",
             "Wall time of the sampler itself, without waiting."),
    _counter("reader_cpu_seconds_total", "costs.reader_cpu_seconds",
             "CPU time of the readers, including driver calls."),
    _counter("reader_wall_seconds_total", "costs.reader_wall_seconds",
             "Wall time of the readers, including driver calls."),
    _gauge("reader_last_snapshot_seconds", "costs.reader_last_wall_seconds",
           "Wall time of the readers for the last snapshot."),
)  # fmt: skip
SERVICE: tuple[Metric, ...] = (
    _counter("dropped_snapshots_total", "service.dropped",
             "Snapshots replaced before they were used."),
    _counter("scrapes_total", "service.scrapes", "Scrapes answered before this one."),
    _counter("scrape_failures_total", "service.failures",
             "Requests that failed or were aborted."),
    _counter("scrape_seconds_total", "service.seconds", "Time spent on rendering responses."),
)  # fmt: skip
SERVER: tuple[Metric, ...] = (
    _gauge("store_bytes", "counts.store_bytes", "Size of the history, measured once a minute."),
    _several("alerts", "counts.alerts", spreads.counted("level", "alerts"), ("level",),
             "Alerts that fire: what another explains is counted with it, what is acknowledged or "
             "silenced too."),
    _gauge("leases", "counts.leases", "Leases in force."),
    _several("hub_refused_total", "counts.refused", spreads.counted("kind", "refused"), ("kind",),
             "Reports of nodes that a hub refused.", kind=MetricKind.COUNTER),
    _several("hub_left_out", "counts.left_out", spreads.counted("kind", "left_out"), ("kind",),
             "Nodes and GPUs of a hub that are not exported: too many, or not read in time."),
    _export("export_sent_total", "sent", "Requests of an export that were accepted."),
    _export("export_refused_total", "refused",
            "Requests of an export that were refused for good, as invalid or too old."),
    _export("export_failures_total", "failures",
            "Attempts of an export that failed and are repeated."),
    _export("export_dropped_total", "dropped",
            "Requests of an export that were never sent: they waited too long, or were too many."),
    _export("export_waiting", "waiting", "Requests of an export that wait to be sent.",
            MetricKind.GAUGE),
)  # fmt: skip
"""Rows of andon itself: read from `spreads.SelfReadings`, if its parts are known."""

HUB_NODE: tuple[Metric, ...] = (
    _several("hub_node_state", "state", spreads.hub_states, ("state",),
             "1 for the current state of the node, 0 for the others.", ExportWhen.ALWAYS),
    _always("hub_node_age_seconds", "age_seconds", "Time since its last report came."),
    _always("hub_node_drained", "drained", "1 if the node is drained, else 0."),
    _gauge("hub_node_simulated", "simulated", "1 if its devices are simulated: no value is real."),
    _gauge("hub_node_gpus", "gpus", "GPUs of the node."),
    _gauge("hub_node_gpus_allocated", "allocated", "GPUs that leases hold."),
    _gauge("hub_node_gpus_in_use", "in_use", "GPUs on which processes run without a lease."),
    _gauge("hub_node_gpus_free", "offered", "Devices that a request would get now."),
    _gauge("hub_node_utilization_ratio", "utilization_percent",
           "Mean utilization of the GPUs that answer."),
    _gauge("hub_node_memory_ratio", "memory_percent", "GPU memory in use, of all GPUs."),
    _gauge("hub_node_temperature_celsius", "temperature_celsius", "Of the hottest GPU."),
    _several("hub_node_alerts", "alerts", spreads.node_alerts, ("level",), "Alerts that fire."),
)  # fmt: skip
"""Rows of a node of a hub: each is read from its `NodeRow`."""

HUB_GPU: tuple[Metric, ...] = (
    _several("hub_gpu_state", "state", spreads.hub_states, ("state",),
             "1 for the current state of the device, 0 for the others.", ExportWhen.ALWAYS),
    _gauge("hub_gpu_utilization_ratio", "sample.utilization_percent",
           "Fraction of time that at least one kernel was running."),
    _gauge("hub_gpu_memory_used_bytes", "sample.memory_used_bytes",
           "Memory in use, excluding what the driver reserves."),
    _gauge("hub_gpu_temperature_celsius", "sample.temperature_celsius", "GPU core temperature."),
    _gauge("hub_gpu_power_watts", "sample.power_watts", "Power draw of the board."),
)  # fmt: skip
"""Rows of a device of a node of a hub: each is read from its `DeviceStatus`."""

ALL = (*DEVICE, *NODE, *ITSELF, *COSTS, *SERVICE, *SERVER, *HUB_NODE, *HUB_GPU)
