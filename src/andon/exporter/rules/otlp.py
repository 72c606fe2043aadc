"""The metrics as an OTLP request in JSON: by the names of the semantic conventions where there are
any (`hw.*`, `system.*`), else by andon's own, from which Prometheus makes those of the catalogue.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from andon.exporter.catalogue import ALL, Metric, MetricKind
from andon.exporter.rules.series import Labels, name_and_labels, samples
from andon.version import __version__

HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
UNITS = {
    "_bytes_per_second": "By/s", "_bytes": "By", "_celsius": "Cel", "_hertz": "Hz", "_joules": "J",
    "_percent": "%", "_ratio": "1", "_seconds": "s", "_watts": "W",
}  # fmt: skip
GAUGE, SUM, COUNTER = "gauge", "sum", "counter"


class OtlpMetric(Struct, frozen=True):
    """A metric in OTLP. A sum goes up and down, and may be added up over devices."""

    name: str
    unit: str = ""
    form: str = GAUGE
    attributes: Mapping[str, str] = {}
    factor: float = 1.0
    help: str = ""


CONVENTIONS: Mapping[str, OtlpMetric] = {
    "gpu_temperature_celsius": OtlpMetric(
        "hw.temperature", "Cel", GAUGE, {"hw.sensor_location": "core"}),
    "gpu_memory_temperature_celsius": OtlpMetric(
        "hw.temperature", "Cel", GAUGE, {"hw.sensor_location": "memory"}),
    "gpu_slowdown_temperature_celsius": OtlpMetric(
        "hw.temperature.limit", "Cel", GAUGE,
        {"hw.sensor_location": "core", "hw.limit_type": "high.degraded"}),
    "gpu_utilization_percent": OtlpMetric(
        "hw.gpu.utilization", "1", GAUGE, {"hw.gpu.task": "general"}, 0.01),
    "gpu_encoder_ratio": OtlpMetric(
        "hw.gpu.utilization", "1", GAUGE, {"hw.gpu.task": "encoder"}),
    "gpu_decoder_ratio": OtlpMetric(
        "hw.gpu.utilization", "1", GAUGE, {"hw.gpu.task": "decoder"}),
    "gpu_memory_used_bytes": OtlpMetric("hw.gpu.memory.usage", "By", SUM),
    "gpu_memory_total_bytes": OtlpMetric("hw.gpu.memory.limit", "By", SUM),
    "gpu_power_watts": OtlpMetric("hw.power", "W"),
    "gpu_energy_joules_total": OtlpMetric("hw.energy", "J", COUNTER),
    "gpu_fan_ratio": OtlpMetric("hw.fan.speed_ratio", "1"),
    "gpu_ecc_uncorrected_errors_total": OtlpMetric(
        "hw.errors", "{error}", COUNTER, {"error.type": "uncorrected"}),
    "node_cpu_ratio": OtlpMetric("system.cpu.utilization", "1"),
    "node_memory_used_bytes": OtlpMetric(
        "system.memory.usage", "By", SUM, {"system.memory.state": "used"}),
    "node_memory_total_bytes": OtlpMetric("system.memory.limit", "By", SUM),
    "node_disk_used_bytes": OtlpMetric(
        "system.filesystem.usage", "By", SUM, {"system.filesystem.state": "used"}),
    "node_disk_total_bytes": OtlpMetric("system.filesystem.limit", "By", SUM),
    "node_network_received_bytes_total": OtlpMetric(
        "system.network.io", "By", COUNTER, {"network.io.direction": "receive"}),
    "node_network_sent_bytes_total": OtlpMetric(
        "system.network.io", "By", COUNTER, {"network.io.direction": "transmit"}),
}  # fmt: skip
"""By their names in the catalogue; values are as there, times the factor."""
_DEVICE = {
    "uuid": "hw.id", "device": "hw.name", "name": "hw.model", "vendor": "hw.vendor",
    "driver": "hw.driver_version", "parent": "hw.parent",
}  # fmt: skip
_NODE = {"mount": "system.filesystem.mountpoint", "interface": "network.interface.name"}


def otlp_metric(row: Metric, prefix: str) -> OtlpMetric:
    """Returns the metric of a row. One that is not in the conventions keeps its name, without the
    unit, which has a field of its own."""
    found = CONVENTIONS.get(row.name)
    if found is not None:
        return found
    name = row.name.removesuffix("_total")
    ending = next((one for one in UNITS if name.endswith(one)), "")
    form = COUNTER if row.kind is MetricKind.COUNTER else GAUGE
    name = f"{prefix}.{name.removesuffix(ending)}"
    return OtlpMetric(name, UNITS.get(ending, ""), form, help=row.help)


class OtlpMessages:
    """Makes a message of each rendering; attributes are written once for each series."""

    def __init__(self, prefix: str, node: str, labels: Mapping[str, str]) -> None:
        self._rows = {f"{prefix}_{row.name}": (row, otlp_metric(row, prefix)) for row in ALL}
        resource = {"service.name": "andon", "service.version": __version__,
                    "service.instance.id": node, "host.name": node, **labels}  # fmt: skip
        scope = _json({"name": "andon", "version": __version__})
        self._head = (
            f'{{"resourceMetrics":[{{"resource":{{"attributes":{_attributes(resource)}}},'
            f'"scopeMetrics":[{{"scope":{scope},"metrics":['
        )
        self._known: dict[str, tuple[str, str, float]] = {}

    def make(self, text: str, at: float) -> bytes:
        stamp = f'"timeUnixNano":"{max(0, round(at * 1000)) * 1_000_000}","asDouble":'
        before, now = self._known, dict[str, tuple[str, str, float]]()
        points: dict[str, list[str]] = {}
        for start, value in samples(text):
            head, attributes, factor = now[start] = before.get(start) or self._read(start)
            shown = value if factor == 1 else repr(float(value) * factor)
            points.setdefault(head, []).append(f"{{{attributes},{stamp}{shown}}}")
        self._known = now
        metrics = ",".join(f"{head}{','.join(rows)}]}}}}" for head, rows in points.items())
        return f"{self._head}{metrics}]}}]}}]}}".encode()

    def _read(self, start: str) -> tuple[str, str, float]:
        """Returns the text before the points of its metric, its attributes, and its factor."""
        name, labels = name_and_labels(start)
        row, metric = self._rows[name]
        attributes = _attributes({**_named(row.name, labels), **metric.attributes})
        return _opening(metric), f'"attributes":{attributes}', metric.factor


def _named(row: str, labels: Labels) -> dict[str, str]:
    """Returns the attributes of a series by the names of the conventions."""
    if not row.startswith("gpu_"):
        return {_NODE.get(key, key): value for key, value in labels.items()}
    return {"hw.type": "gpu"} | {_DEVICE.get(key, key): value for key, value in labels.items()}


def _opening(metric: OtlpMetric) -> str:
    """Returns the text before the points, which is the same for rows of one metric."""
    about = {"name": metric.name, "unit": metric.unit} | (
        {"description": metric.help} if metric.help else {}
    )
    if metric.form == GAUGE:
        return f'{_json(about)[:-1]},"gauge":{{"dataPoints":['
    rising = "true" if metric.form == COUNTER else "false"
    sum_of = f'"aggregationTemporality":2,"isMonotonic":{rising},"dataPoints":['
    return f'{_json(about)[:-1]},"sum":{{{sum_of}'


def _attributes(values: Mapping[str, str]) -> str:
    return _json([{"key": key, "value": {"stringValue": text}} for key, text in values.items()])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
