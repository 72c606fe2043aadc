"""History as text, CSV and JSON; pure, so that golden files can test it."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from andon.cli.show.csv_table import CsvTable, attributes, items
from andon.cli.show.reports.figures import size
from andon.cli.show.table import TableColumn, TableRow, choose, draw, sizes_of
from andon.cli.show.text import UNKNOWN, Text, known, styled
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import HistoryNote
from andon.history.rules.series import HOST, Bucket, summary
from andon.history.rules.sparkline import sparkline
from andon.model.codec import JsonDocument
from andon.model.device import Device, reading_label
from andon.model.naming import recorded_label
from andon.model.throttling import reason_of
from andon.model.wire import Json
from andon.units import GIB, fixed, human_seconds, iso_utc, symbol_of, unit_of

HISTORY = "andon.history/1"
LEAST_SPARKS, MOST_SPARKS = 8, 72
AROUND_SPARKS = 64  # what the other columns take
HOTTEST = 100.0  # degrees: the top of every chart of a temperature
LEAST_AXIS = 14  # two times of day and a gap
DAY_SECONDS = 86_400.0
RATE = "bytes_per_second"

Shares = tuple[Sequence[int], Mapping[str, Sequence[float | None]]]
"""How many readings each interval has, and the share of them that each throttle reason applied."""


class HistoryLine(Struct, frozen=True):
    """One reading of one device over the whole period."""

    device: Device | None  # None for the node itself
    uuid: str
    metric: str
    buckets: Sequence[Bucket]
    top: float | None = None  # of its scale, where the device or the unit has one

    @property
    def label(self) -> str:
        return HOST if self.device is None else recorded_label(self.device)


def sparks_at(width: int) -> int:
    """Returns how many intervals fit into this width."""
    return max(LEAST_SPARKS, min(MOST_SPARKS, width - AROUND_SPARKS))


def render_history(
    lines: Sequence[HistoryLine], since: float, until: float, width: int
) -> list[Text]:
    """A heading and a line per reading."""
    sparks: TableColumn[HistoryLine] = TableColumn(
        "", lambda line: styled(_sparks(line), "green"), rank=1
    )
    columns: list[TableColumn[HistoryLine]] = [
        TableColumn("GPU", lambda line: styled(line.label, "bold")),
        TableColumn("READING", lambda line: styled(_reading(line.metric)), elastic=7),
        sparks,
        TableColumn("MIN", lambda line: _value(line, "min"), right=True),
        TableColumn("MEAN", lambda line: _value(line, "mean"), right=True),
        TableColumn("MAX", lambda line: _value(line, "max"), right=True),
        TableColumn("OF", lambda line: _top(line), rank=2, right=True),
        TableColumn("", lambda line: styled(_unit(line.metric), "dim"), gap=1),
    ]
    rows = _rows(lines)
    out = [_heading(lines, since, until).fit(width), *draw(columns, rows, width)]
    out += _axis(choose(columns, rows, width), sparks, rows, since, until, width)
    if not any(bucket.count for line in lines for bucket in line.buckets):
        out.append(styled("no data in this period (andon serve records history)", "dim"))
    return out


def throttle_lines(
    device: Device | None, uuid: str, found: Shares, since: float, until: float, points: int
) -> list[HistoryLine]:
    """A line per reason: the share of time in which it applied, in per cent."""
    counts, shares = found
    return [
        HistoryLine(
            device, uuid, f"throttle_{reason}_percent", _percents(counts, column, since, until)
        )
        for reason, column in (shares or {"any": [0.0 if n else None for n in counts]}).items()
    ]


def _percents(
    counts: Sequence[int], column: Sequence[float | None], since: float, until: float
) -> list[Bucket]:
    step = (until - since) / max(1, len(counts))
    out = []
    for place, (count, share) in enumerate(zip(counts, column, strict=False)):
        begins, ends = since + place * step, since + (place + 1) * step
        percent = None if share is None else 100.0 * share
        out.append(
            Bucket(begins, ends, count if share is not None else 0, percent, percent, percent)
        )
    return out


def _reading(metric: str) -> str:
    """`throttle: power cap`, or the reading's own label."""
    if not metric.startswith("throttle_"):
        return reading_label(metric)
    reason = metric.removeprefix("throttle_").removesuffix("_percent")
    return f"throttle: {reason_of(reason).label}"


def _axis(
    columns: Sequence[TableColumn[HistoryLine]],
    sparks: TableColumn[HistoryLine],
    rows: Sequence[TableRow[HistoryLine]],
    since: float,
    until: float,
    width: int,
) -> list[Text]:
    """The times of the first and the last interval, and of the middle where there is space."""
    if sparks not in columns or not rows:
        return []
    sizes, place = sizes_of(columns, rows, width), columns.index(sparks)
    room = sizes[place]
    before = sum(sizes[:place]) + sum(column.gap for column in columns[1 : place + 1])
    form = "%H:%M" if until - since <= DAY_SECONDS + 60 else "%d %b"
    first, middle, last = (
        time.strftime(form, time.localtime(at)) for at in (since, (since + until) / 2, until)
    )
    if room < LEAST_AXIS:
        return []
    between = room - len(first) - len(last)
    if between >= len(middle) + 4:
        gap = (between - len(middle)) // 2
        rest = " " * (between - len(middle) - gap)
        return [styled(f"{' ' * before}{first}{' ' * gap}{middle}{rest}{last}", "dim")]
    return [styled(f"{' ' * before}{first}{' ' * between}{last}", "dim")]


def _rows(lines: Sequence[HistoryLine]) -> list[TableRow[HistoryLine]]:
    return [
        TableRow(line, style=None if any(b.count for b in line.buckets) else "dim")
        for line in lines
    ]


def render_uses(
    uses: Sequence[UsageInterval],
    devices: Sequence[Device],
    latest: Mapping[str, float],
    width: int,
) -> list[Text]:
    """Who used the devices, the latest first. `latest`: by device, since when it was last read."""
    labels = {device.uuid: recorded_label(device) for device in devices}
    columns: list[TableColumn[UsageInterval]] = [
        TableColumn("GPU", lambda use: styled(labels.get(use.device, use.device[:12]), "bold")),
        TableColumn("USER", lambda use: styled(use.user or UNKNOWN), elastic=6),
        TableColumn("FROM", lambda use: styled(_clock(use.first))),
        TableColumn("TO", lambda use: styled(_until(use, latest))),
        TableColumn(
            "FOR", lambda use: styled(human_seconds(use.last - use.first)), rank=2, right=True
        ),
        TableColumn("PEAK", lambda use: styled(size(use.peak_memory_bytes)), rank=1, right=True),
        TableColumn("PID", lambda use: styled(str(use.pid)), rank=3, right=True),
        TableColumn("PROGRAM", lambda use: styled(use.name or UNKNOWN), rank=2, elastic=8),
    ]
    if not uses:
        return [styled("no one used a device in this period")]
    rows = [TableRow(use) for use in sorted(uses, key=lambda use: (-use.last, -use.first, use.pid))]
    return draw(columns, rows, width)


def render_notes(notes: Sequence[HistoryNote], devices: Sequence[Device], width: int) -> list[Text]:
    """A line for each note, the earliest first; none without notes."""
    labels = {device.uuid: recorded_label(device) for device in devices}
    columns: list[TableColumn[HistoryNote]] = [
        TableColumn("NOTE", lambda note: styled(note.id, "dim"), rank=1),
        TableColumn("GPU", lambda note: styled(labels.get(note.device or "", HOST), "bold")),
        TableColumn("FROM", lambda note: styled(_clock(note.since))),
        TableColumn("FOR", lambda note: styled(_length(note)), rank=2, right=True),
        TableColumn("BY", lambda note: styled(note.by or "andon"), elastic=6),
        TableColumn("TEXT", lambda note: styled(note.text), elastic=8),
    ]
    return [Text(), *draw(columns, [TableRow(one) for one in notes], width)] if notes else []


def _length(note: HistoryNote) -> str:
    return human_seconds(note.until - note.since) if note.until > note.since else ""


def history_to_json(lines: Sequence[HistoryLine], since: float, until: float) -> Json:
    return {
        "schema": HISTORY,
        "since": since,
        "until": until,
        "series": [
            {
                "device": line.uuid,
                **{name: getattr(line.device, name, None) for name in ("index", "vendor", "name")},
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


BUCKETS: CsvTable[Json] = CsvTable(
    {
        **items(("device", "index", "metric", "since")),
        "since_iso": lambda row: iso_utc(row["since"]),
        **items(("until",)),
        "until_iso": lambda row: iso_utc(row["until"]),
        **items(("count", "min", "mean", "max")),
    }
)
"""A row for each of `history_to_rows`."""


class UsageReport(JsonDocument, frozen=True):
    """Who used the devices."""

    schema = "andon.usage/1"
    usage: Sequence[UsageInterval]


_USER = ("device", "pid", "started", "user", "name")
USES: CsvTable[UsageInterval] = CsvTable(
    {
        **attributes((*_USER, "first")),
        "first_iso": lambda use: iso_utc(use.first),
        **attributes(("last",)),
        "last_iso": lambda use: iso_utc(use.last),
        **attributes(("peak_memory_bytes",)),
    }
)


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
    text = styled(f"last {_span(until - since)}, to {_clock(until)}", "bold")
    return text + styled("  SIMULATED", "yellow") if simulated else text


def _span(seconds: float) -> str:
    """`24 h`, `7 d`: one unit if it is a whole number of hours or days."""
    hours = round(seconds / 3600)
    if abs(seconds - 3600 * hours) > 60 or not hours:
        return human_seconds(seconds)
    return f"{hours // 24} d" if hours > 24 and hours % 24 == 0 else f"{hours} h"


def _sparks(line: HistoryLine) -> str:
    """Returns a sparkline from zero to a known top, so that rows compare; else to the maximum."""
    return sparkline([bucket.mean for bucket in line.buckets], low=0.0, high=top_of(line))


def top_of(line: HistoryLine) -> float | None:
    """Returns the top of the scale: 100 %, 100 °C, all of the memory, the power limit; None if
    nothing limits it."""
    unit = unit_of(line.metric)
    fixed = {"percent": 100.0, "celsius": HOTTEST}.get(unit)
    return line.top if fixed is None else fixed


def _top(line: HistoryLine) -> Text:
    top = top_of(line)
    return Text() if top is None else styled(_number(line.metric, top), "dim")


def _value(line: HistoryLine, name: str) -> Text:
    whole = summary(line.buckets)
    value = None if whole is None else getattr(whole, name)
    return known(value, partial(_number, line.metric))


def _number(metric: str, value: float) -> str:
    if metric.endswith("_bytes"):
        return fixed(value / GIB, 1)
    if unit_of(metric) == RATE:
        value /= 1e6
    return fixed(value) if abs(value) >= 10 or value == int(value) else fixed(value, 1)


def _unit(metric: str) -> str:
    return {"bytes": "GiB", RATE: "MB/s"}.get(unit_of(metric)) or symbol_of(metric)


def _until(use: UsageInterval, latest: Mapping[str, float]) -> str:
    return "now" if use.last >= latest.get(use.device, math.inf) else _clock(use.last)


def _clock(at: float) -> str:
    """Local time as text."""
    return time.strftime("%d %b %H:%M", time.localtime(at))
