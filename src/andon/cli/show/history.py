"""History as text, CSV and JSON; pure, so that golden files can test it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from andon.cli.show.csv_rows import csv_line
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, say
from andon.core.history.intervals import UsageInterval
from andon.core.history.series import HOST, Bucket, summary
from andon.core.history.sparkline import sparkline
from andon.model.device import Device, reading_label
from andon.model.naming import recorded_label
from andon.model.wire import Json
from andon.units import GIB, human_bytes, human_seconds, symbol_of, unit_of

HISTORY, USAGE = "andon.history/1", "andon.usage/1"
LEAST_SPARKS, MOST_SPARKS = 8, 72
AROUND_SPARKS = 58  # what the other columns take


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One reading of one device over the whole period."""

    device: Device | None  # None for the node itself
    uuid: str
    metric: str
    buckets: Sequence[Bucket]

    @property
    def label(self) -> str:
        return HOST if self.device is None else recorded_label(self.device)


def sparks_at(width: int) -> int:
    """How many intervals there is space for."""
    return max(LEAST_SPARKS, min(MOST_SPARKS, width - AROUND_SPARKS))


def render_history(
    lines: Sequence[HistoryLine], since: float, until: float, width: int, color: bool
) -> str:
    """A heading and a line per reading."""
    columns: list[TableColumn[HistoryLine]] = [
        TableColumn("GPU", lambda line: say(line.label, "bold")),
        TableColumn("READING", lambda line: say(reading_label(line.metric)), elastic=7),
        TableColumn("", lambda line: say(_sparks(line), "green"), rank=1),
        TableColumn("MIN", lambda line: _value(line, "min"), right=True),
        TableColumn("MEAN", lambda line: _value(line, "mean"), right=True),
        TableColumn("MAX", lambda line: _value(line, "max"), right=True),
        TableColumn("", lambda line: say(_unit(line.metric), "dim"), gap=1),
    ]
    out = [_heading(lines, since, until).fit(width), *draw(columns, _rows(lines), width)]
    if not any(bucket.count for line in lines for bucket in line.buckets):
        out.append(say("no data in this period (andon serve records history)", "dim"))
    return "".join(line.paint(color) + "\n" for line in out)


def _rows(lines: Sequence[HistoryLine]) -> list[TableRow[HistoryLine]]:
    return [
        TableRow(line, style=None if any(b.count for b in line.buckets) else "dim")
        for line in lines
    ]


def render_uses(
    uses: Sequence[UsageInterval], devices: Sequence[Device], now: float, width: int, color: bool
) -> str:
    """Who used the devices, the latest first."""
    labels = {device.uuid: recorded_label(device) for device in devices}
    columns: list[TableColumn[UsageInterval]] = [
        TableColumn("GPU", lambda use: say(labels.get(use.device, use.device[:12]), "bold")),
        TableColumn("USER", lambda use: say(use.user or UNKNOWN), elastic=6),
        TableColumn("FROM", lambda use: say(_clock(use.first))),
        TableColumn("TO", lambda use: say(_until(use, now))),
        TableColumn(
            "FOR", lambda use: say(human_seconds(use.last - use.first)), rank=2, right=True
        ),
        TableColumn("PEAK", lambda use: say(_size(use.peak_memory_bytes)), rank=1, right=True),
        TableColumn("PID", lambda use: say(str(use.pid)), rank=3, right=True),
        TableColumn("PROGRAM", lambda use: say(use.name or UNKNOWN), rank=2, elastic=8),
    ]
    if not uses:
        return "no one used a device in this period\n"
    rows = [TableRow(use) for use in sorted(uses, key=lambda use: (-use.last, -use.first, use.pid))]
    return "".join(line.paint(color) + "\n" for line in draw(columns, rows, width))


def history_to_json(lines: Sequence[HistoryLine], since: float, until: float) -> Json:
    return {
        "schema": HISTORY,
        "since": since,
        "until": until,
        "series": [
            {
                "device": line.uuid,
                "index": line.device.index if line.device else None,
                "metric": line.metric,
                "buckets": [_bucket_json(bucket) for bucket in line.buckets],
            }
            for line in lines
        ],
    }


def history_to_rows(lines: Sequence[HistoryLine]) -> Iterator[Json]:
    """One object per interval that has data, for JSONL."""
    for line in lines:
        index = line.device.index if line.device else None
        for bucket in line.buckets:
            if bucket.count:
                series = {"device": line.uuid, "index": index, "metric": line.metric}
                yield {**series, **_bucket_json(bucket)}


def history_to_csv(lines: Sequence[HistoryLine]) -> str:
    names = ("device", "index", "metric", "since", "until", "count", "min", "mean", "max")
    return _csv(names, history_to_rows(lines))


def usage_to_json(uses: Iterable[UsageInterval]) -> Json:
    return {"schema": USAGE, "usage": list(usage_to_rows(uses))}


def usage_to_rows(uses: Iterable[UsageInterval]) -> Iterator[Json]:
    for use in uses:
        yield {name: getattr(use, name) for name in _USE}


def usage_to_csv(uses: Iterable[UsageInterval]) -> str:
    return _csv(_USE, usage_to_rows(uses))


_USE = ("device", "pid", "started", "user", "name", "first", "last", "peak_memory_bytes")


def _csv(names: Sequence[str], rows: Iterable[Json]) -> str:
    return csv_line(names) + "".join(csv_line([row[name] for name in names]) for row in rows)


def _bucket_json(bucket: Bucket) -> Json:
    return {
        "since": round(bucket.since, 3),
        "until": round(bucket.until, 3),
        "count": bucket.count,
        "min": bucket.min,
        "mean": None if bucket.mean is None else round(bucket.mean, 4),
        "max": bucket.max,
    }


def _heading(lines: Sequence[HistoryLine], since: float, until: float) -> Text:
    simulated = any(line.device and line.device.vendor == "sim" for line in lines)
    text = say(f"last {_span(until - since)}, to {_clock(until)}", "bold")
    return text + say("  SIMULATED", "yellow") if simulated else text


def _span(seconds: float) -> str:
    """`24 h`, `7 d`: one unit if it is a whole number of hours or days."""
    hours = round(seconds / 3600)
    if abs(seconds - 3600 * hours) > 60 or not hours:
        return human_seconds(seconds)
    return f"{hours // 24} d" if hours > 24 and hours % 24 == 0 else f"{hours} h"


def _sparks(line: HistoryLine) -> str:
    values = [bucket.mean for bucket in line.buckets]
    if line.metric.endswith("_percent"):
        return sparkline(values)
    from_zero = line.metric.endswith(("_watts", "_used_bytes", "load_1m"))
    return sparkline(values, low=0.0 if from_zero else None, high=None)


def _value(line: HistoryLine, name: str) -> Text:
    whole = summary(line.buckets)
    value = None if whole is None else getattr(whole, name)
    if value is None:
        return say(UNKNOWN, "dim")
    if line.metric.endswith("_bytes"):
        return say(f"{value / GIB:.1f}")
    return say(f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}")


def _unit(metric: str) -> str:
    return "GiB" if unit_of(metric) == "bytes" else symbol_of(metric)


def _until(use: UsageInterval, now: float) -> str:
    return "now" if now - use.last < 60 else _clock(use.last)


def _clock(at: float) -> str:
    """Local time as text."""
    return time.strftime("%d %b %H:%M", time.localtime(at))


def _size(count: int | None) -> str:
    return UNKNOWN if count is None else human_bytes(count)
