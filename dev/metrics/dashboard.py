"""deploy/grafana/andon.json, made from the catalogue: one dashboard for any number of nodes."""

import json
from typing import Any

from dev.metrics.rules import metric
from msgspec import Struct

from andon.model.throttling import IDLE

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
ON = 'instance=~"$instance", device=~"$device"'
AT = 'instance=~"$instance"'


class Query(Struct, frozen=True):
    """One query of a panel, and the names of its series."""

    text: str
    legend: str


class Panel(Struct, frozen=True):
    """One panel: its queries, its unit (by Grafana's name) and its size."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    width: int = 12
    height: int = 8
    kind: str = "timeseries"
    most: float | None = None
    stacked: bool = False


class Row(Struct, frozen=True):
    """Panels under one heading; with `each` the row is repeated for every device."""

    title: str
    panels: tuple[Panel, ...]
    each: str | None = None


def rows(prefix: str = "andon") -> tuple[Row, ...]:
    """The dashboard as a table."""

    def on(name: str, more: str = "") -> str:
        return f"{metric(name, prefix)}{{{ON}{more}}}"

    def at(name: str) -> str:
        return f"{metric(name, prefix)}{{{AT}}}"

    def devices(name: str, legend: str = "{{instance}} GPU {{device}}") -> tuple[Query, ...]:
        return (Query(on(name), legend),)

    ratio = f"{on('gpu_memory_used_bytes')} / {on('gpu_memory_total_bytes')}"
    cpu = "rate({}[$__rate_interval])"
    return (
        Row("Overview", (
            Panel("Devices", "short", (Query(f"sum({at('devices')})", "known"), Query(
                f'sum({metric("gpu_state", prefix)}{{{AT}, state="ok"}})', "ok")), 6, 4, "stat"),
            Panel("Power now", "watt", (Query(f"sum({on('gpu_power_watts')})", "all"),),
                  6, 4, "stat"),
            Panel("Hottest", "celsius", (Query(f"max({on('gpu_temperature_celsius')})", "all"),),
                  6, 4, "stat"),
            Panel("Age of the values", "s", (
                Query(f"max({at('snapshot_age_seconds')})", "oldest"),), 6, 4, "stat"),
            Panel("State", "short", (
                Query(f"{on('gpu_state')} == 1", "{{instance}} GPU {{device}} {{state}}"),),
                  24, 5, "table"),
            Panel("Device info", "short", devices("gpu_info", "{{name}}"), 24, 6, "table"),
        )),
        Row("GPU $device", (
            Panel("Utilisation", "percent", devices("gpu_utilization_percent"), 6, 5, "gauge", 100),
            Panel("Memory", "percentunit", (Query(ratio, "{{instance}} GPU {{device}}"),),
                  6, 5, "gauge", 1),
            Panel("Temperature", "celsius", devices("gpu_temperature_celsius"), 6, 5, "stat"),
            Panel("Power", "watt", devices("gpu_power_watts"), 6, 5, "stat"),
        ), each="device"),
        Row("Over time", (
            Panel("Utilisation", "percent", devices("gpu_utilization_percent"), most=100),
            Panel("Memory activity", "percentunit",
                  devices("gpu_memory_utilization_ratio"), most=1),
            Panel("Memory used", "bytes", devices("gpu_memory_used_bytes")),
            Panel("Memory not accounted for", "bytes",
                  devices("gpu_memory_unattributed_bytes")),
            Panel("Temperature", "celsius", (
                *devices("gpu_temperature_celsius"),
                *devices("gpu_slowdown_temperature_celsius", "GPU {{device}} slowdown"))),
            Panel("Memory temperature", "celsius", devices("gpu_memory_temperature_celsius")),
            Panel("Power", "watt", (*devices("gpu_power_watts"),
                                    *devices("gpu_power_limit_watts", "GPU {{device}} limit"))),
            Panel("Energy per hour", "joule", (
                Query(f"3600 * rate({on('gpu_energy_joules_total')}[$__rate_interval])",
                      "{{instance}} GPU {{device}}"),)),
            Panel("Clock", "hertz", devices("gpu_sm_clock_hertz")),
            Panel("Throttle reasons", "short", (
                Query(on("gpu_throttle", f', reason!="{IDLE.name}"'),
                      "{{instance}} GPU {{device}} {{reason}}"),), stacked=True),
            Panel("Uncorrected memory errors", "short",
                  devices("gpu_ecc_uncorrected_errors_total")),
            Panel("PCIe lanes", "short", devices("gpu_pcie_width")),
        )),
        Row("Users", (
            Panel("Memory by user", "bytes", (
                Query(f"sum by (user) ({on('gpu_user_memory_bytes')})", "{{user}}"),),
                  stacked=True),
            Panel("Processes by user", "short", (
                Query(f"sum by (user) ({on('gpu_user_processes')})", "{{user}}"),), stacked=True),
            Panel("Processes by device", "short", (
                Query(f"sum by (instance, device) ({on('gpu_processes')})",
                      "{{instance}} GPU {{device}}"),), 24),
        )),
        Row("Node", (
            Panel("CPU", "percentunit", (Query(at("node_cpu_ratio"), "{{instance}}"),),
                  most=1),
            Panel("Load", "short", (Query(at("node_load_1m"), "{{instance}}"),)),
            Panel("Memory", "bytes", (Query(at("node_memory_used_bytes"), "{{instance}} used"),
                                      Query(at("node_memory_total_bytes"), "{{instance}} all"))),
            Panel("Disks", "percentunit", (
                Query(f"{at('node_disk_used_bytes')} / {at('node_disk_total_bytes')}",
                      "{{instance}} {{mount}}"),), most=1),
            Panel("Network", "Bps", (
                Query(cpu.format(at("node_network_received_bytes_total")),
                      "{{instance}} {{interface}} in"),
                Query(cpu.format(at("node_network_sent_bytes_total")),
                      "{{instance}} {{interface}} out")), 24),
        )),
        Row("andon itself", (
            Panel("CPU time", "percentunit", (
                Query(cpu.format(at("sampler_cpu_seconds_total")), "{{instance}} own"),
                Query(cpu.format(at("reader_cpu_seconds_total")), "{{instance}} readers"))),
            Panel("Time of the last sample", "s", (
                Query(at("reader_last_snapshot_seconds"), "{{instance}}"),)),
            Panel("Missed, dropped, failed", "short", (
                Query(cpu.format(at("missed_snapshots_total")), "{{instance}} missed samples"),
                Query(cpu.format(at("dropped_snapshots_total")), "{{instance}} dropped"),
                Query(cpu.format(at("scrape_failures_total")), "{{instance}} failed scrapes"))),
            Panel("Vendors that cannot be read", "short", (
                Query(at("source_failed"), "{{instance}} {{source}}"),)),
        )),
    )  # fmt: skip


def variables(prefix: str = "andon") -> dict[str, str]:
    """What can be chosen above the panels: name and query."""
    state = metric("gpu_state", prefix)
    return {
        "instance": f"label_values({metric('devices', prefix)}, instance)",
        "device": f'label_values({state}{{instance=~"$instance"}}, device)',
    }


def dashboard(prefix: str = "andon") -> str:
    """The whole file."""
    value = {
        "title": "andon: GPUs",
        "uid": f"{prefix}-gpus",
        "tags": ["gpu", "andon"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), *map(_variable, variables(prefix).items())]},
        "panels": _placed(rows(prefix)),
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _placed(table: tuple[Row, ...]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    down = 0
    for row in table:
        heading: dict[str, Any] = {"type": "row", "title": row.title, "collapsed": False,
                                   "panels": [], "id": len(out) + 1,
                                   "gridPos": _grid(0, down, WIDTH, 1)}  # fmt: skip
        out.append(heading | ({"repeat": row.each} if row.each else {}))
        down += 1
        along = 0
        for panel in row.panels:
            if along + panel.width > WIDTH:
                along, down = 0, down + panel.height
            place = _grid(along, down, panel.width, panel.height)
            out.append(_panel(panel) | {"id": len(out) + 1, "gridPos": place})
            along += panel.width
        down += row.panels[-1].height
    return out


def _panel(panel: Panel) -> dict[str, Any]:
    now = panel.kind != "timeseries"
    limits = {"min": 0} | ({} if panel.most is None else {"max": panel.most})
    custom = {"custom": {"stacking": {"mode": "normal"}, "fillOpacity": 30}}
    defaults = {"unit": panel.unit, **limits, **(custom if panel.stacked else {})}
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_target(chr(65 + n), q, panel, now) for n, q in enumerate(panel.queries)],
    }


def _target(name: str, query: Query, panel: Panel, now: bool) -> dict[str, Any]:
    target = {"refId": name, "expr": query.text, "legendFormat": query.legend, "instant": now}
    return target | ({"format": "table"} if panel.kind == "table" else {})


def _grid(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}


def _variable(item: tuple[str, str]) -> dict[str, Any]:
    name, query = item
    return {"name": name, "label": name.capitalize(), "type": "query", "datasource": SOURCE,
            "query": query, "refresh": 2, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"}}  # fmt: skip
