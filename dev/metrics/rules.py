"""deploy/prometheus/andon-rules.yml, made from the catalogues: recording rules and alerts."""

from collections.abc import Iterable

from dev.metrics import alerting
from dev.metrics.alerting import Alert
from msgspec import Struct

from andon.explain.conditions.catalogue import RULES
from andon.explain.conditions.prometheus import no_query_reason
from andon.exporter.catalogue import ALL

NAMES = frozenset(row.name for row in ALL)


class Recording(Struct, frozen=True):
    """A recording rule: a query that is computed in advance."""

    name: str
    query: str


def metric(name: str, prefix: str) -> str:
    """The full name of a metric; a misspelt one raises KeyError."""
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
                  f"rate({m('sampler_cpu_seconds_total')}[5m])"
                  f" + rate({m('reader_cpu_seconds_total')}[5m])"),
    )  # fmt: skip


def of_andon(prefix: str = "andon") -> tuple[Alert, ...]:
    """What only Prometheus can see: that andon cannot read devices, or does not run; and what a hub
    says of its nodes."""

    def m(name: str) -> str:
        return metric(name, prefix)

    return (
        Alert("AndonSourceFailed", f"{m('source_failed')} == 1", "5m", "warning",
              "The {{ $labels.source }} devices on {{ $labels.instance }} cannot be read",
              "Run andon doctor to see why."),
        Alert("AndonSnapshotOld", f"{m('snapshot_age_seconds')} > 60", "1m", "critical",
              "andon on {{ $labels.instance }} has read nothing for a minute",
              "Run andon doctor, then restart the exporter."),
        Alert("AndonNodeSilent",
              f'{m("hub_node_state")}{{state="silent"}} == 1'
              f" unless on (instance, job, node) {m('hub_node_drained')} == 1",
              "1m", "warning",
              "{{ $labels.node }} does not report to its hub {{ $labels.instance }}",
              "Check that the machine runs, and andon agent on it."),
    )  # fmt: skip


def alerts(prefix: str = "andon") -> tuple[Alert, ...]:
    """Every alert of the file."""
    return (*alerting.alerts(prefix), *of_andon(prefix))


def rules(prefix: str = "andon") -> str:
    """The whole file; YAML is a superset of JSON strings, so nothing needs a library."""
    missing = [(rule.name, why) for rule in RULES if (why := no_query_reason(rule))]
    lines = [
        "# Generated from andon's metrics and alert rules by `make golden`; do not edit. `level`",
        "# is the level in andon. `severity` is info where andon notifies no one, so that a route",
        "# by severity sends nothing for a busy, healthy GPU.",
        "#",
        "# These rules differ from andon:",
        *(f"# - {words}" for words in alerting.DIFFERENCES),
        "#",
        "# Rules of andon that are not in this file, and why:",
        *(f"# - {name}: {why}" for name, why in missing),
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
    kept = [f"        keep_firing_for: {rule.kept}"] if rule.kept else []
    named = [f"          rule: {rule.rule}", f"          level: {rule.level}"]
    return [
        f"      - alert: {rule.name}",
        f"        expr: {_quoted(rule.query)}",
        f"        for: {rule.held}",
        *kept,
        "        labels:",
        *(named if rule.rule else []),
        f"          severity: {rule.severity}",
        "        annotations:",
        f"          summary: {_quoted(rule.summary)}",
        f"          description: {_quoted(rule.action)}",
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _flat(parts: Iterable[list[str]]) -> list[str]:
    return [line for part in parts for line in part]
