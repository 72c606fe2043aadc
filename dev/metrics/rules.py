"""deploy/prometheus/andon-rules.yml, made from the catalogue: recording rules and a few alerts."""

from collections.abc import Iterable
from dataclasses import dataclass

from andon.exporter.catalogue import ALL

NAMES = frozenset(row.name for row in ALL)


@dataclass(frozen=True, slots=True)
class Recording:
    """A query that is computed ahead."""

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition, how long it must hold, and what a person should know and do."""

    name: str
    query: str
    held: str
    severity: str
    summary: str
    action: str


def metric(name: str, prefix: str) -> str:
    """A name of the catalogue with its prefix; a misspelt one does not get into a file."""
    if name not in NAMES:
        raise KeyError(name)
    return f"{prefix}_{name}"


def recordings(prefix: str = "andon") -> tuple[Recording, ...]:
    def m(name: str) -> str:
        return metric(name, prefix)

    near = f"{m('gpu_temperature_celsius')} - {m('gpu_slowdown_temperature_celsius')}"
    return (
        Recording(f"device:{prefix}_gpu_memory_used:ratio",
                  f"{m('gpu_memory_used_bytes')} / {m('gpu_memory_total_bytes')}"),
        Recording(f"device:{prefix}_gpu_power:ratio",
                  f"{m('gpu_power_watts')} / {m('gpu_power_limit_watts')}"),
        Recording(f"device:{prefix}_gpu_slowdown_distance:celsius", near),
        Recording(f"device:{prefix}_gpu_energy_watts:rate5m",
                  f"rate({m('gpu_energy_joules_total')}[5m])"),
        Recording(f"instance:{prefix}_gpu_utilization_percent:avg",
                  f"avg by (instance, job) ({m('gpu_utilization_percent')})"),
        Recording(f"instance:{prefix}_gpu_power_watts:sum",
                  f"sum by (instance, job) ({m('gpu_power_watts')})"),
        Recording(f"instance_user:{prefix}_gpu_user_memory_bytes:sum",
                  f"sum by (instance, job, user) ({m('gpu_user_memory_bytes')})"),
        Recording(f"instance:{prefix}_cpu_ratio:rate5m",
                  f"rate({m('own_cpu_seconds_total')}[5m])"
                  f" + rate({m('reader_cpu_seconds_total')}[5m])"),
    )  # fmt: skip


def alerts(prefix: str = "andon") -> tuple[Alert, ...]:
    def m(name: str) -> str:
        return metric(name, prefix)

    def state(name: str) -> str:
        return f'{m("gpu_state")}{{state="{name}"}} == 1'

    where = "GPU {{ $labels.device }} on {{ $labels.instance }}"
    return (
        Alert("AndonGpuHot", f"device:{prefix}_gpu_slowdown_distance:celsius > -5", "2m", "warning",
              f"{where} is within 5 °C of its slowdown temperature",
              "Look at the fans and the air: andon why"),
        Alert("AndonGpuThermalSlowdown",
              f'{m("gpu_throttle")}{{reason=~"(sw|hw)_thermal_slowdown"}} == 1', "2m", "warning",
              f"{where} is slowed down by heat ({{{{ $labels.reason }}}})",
              "Look at the fans and the air: andon why"),
        Alert("AndonGpuLost", state("lost"), "0m", "critical",
              f"{where} is lost", "andon doctor; often the node has to be rebooted"),
        Alert("AndonGpuStale", state("stale"), "1m", "critical",
              f"{where} does not answer", "The driver hangs: andon doctor"),
        Alert("AndonGpuMemoryNearlyFull", f"device:{prefix}_gpu_memory_used:ratio > 0.9", "10m",
              "info", f"{where} is more than 90 % full",
              "This is how training runs; it matters if it keeps growing: andon ps"),
        Alert("AndonGpuEccErrors",
              f"increase({m('gpu_ecc_uncorrected_errors_total')}[1h]) > 0", "0m", "critical",
              f"{where} has memory errors that were not corrected",
              "Results may be wrong: stop the work there, then andon doctor"),
        Alert("AndonSourceFailed", f"{m('source_failed')} == 1", "5m", "warning",
              "The {{ $labels.source }} devices on {{ $labels.instance }} cannot be read",
              "andon doctor says why"),
        Alert("AndonSnapshotOld", f"{m('snapshot_age_seconds')} > 60", "1m", "critical",
              "andon on {{ $labels.instance }} has read nothing for a minute",
              "andon doctor; then start the exporter anew"),
    )  # fmt: skip


def rules(prefix: str = "andon") -> str:
    """The whole file; YAML is a superset of JSON strings, so nothing needs a library."""
    lines = [
        "# Made from andon's catalogue of metrics (make golden writes it): do not edit.",
        "# A busy, healthy GPU raises no warning: full memory is an info, full power nothing.",
        "groups:",
        f"  - name: {prefix}-recording",
        "    rules:",
        *_flat(_recording(rule) for rule in recordings(prefix)),
        f"  - name: {prefix}-alerts",
        "    rules:",
        *_flat(_alert(rule) for rule in alerts(prefix)),
    ]
    return "\n".join(lines) + "\n"


def _recording(rule: Recording) -> list[str]:
    return [f"      - record: {rule.name}", f"        expr: {_quoted(rule.query)}"]


def _alert(rule: Alert) -> list[str]:
    return [
        f"      - alert: {rule.name}",
        f"        expr: {_quoted(rule.query)}",
        f"        for: {rule.held}",
        "        labels:",
        f"          severity: {rule.severity}",
        "        annotations:",
        f"          summary: {_quoted(rule.summary)}",
        f"          description: {_quoted(rule.action)}",
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _flat(parts: Iterable[list[str]]) -> list[str]:
    return [line for part in parts for line in part]
