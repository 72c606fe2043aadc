"""The latest samples of a run: a sparkline per device, and its latest events."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.cli.show.runs.cells import clock, length, number
from andon.cli.show.runs.curves import curve_rows
from andon.cli.show.runs.listing import state_text
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import UNKNOWN, Text, known, styled
from andon.history.rules.sparkline import sparkline
from andon.model.naming import models_text, short_model
from andon.model.run.record import (
    ItemState,
    RunAlert,
    RunBegin,
    RunDevice,
    RunEvent,
    RunItem,
    RunLine,
    RunLogged,
    RunSample,
    RunState,
)
from andon.runs.rules.lines import Happening, RecentLines
from andon.runs.rules.progress import logged_progress
from andon.units import fixed, human_bytes

ITEM_STYLES = {ItemState.FAILED: "red", ItemState.RETRY: "yellow", ItemState.OK: "green"}
ITEM_TEXTS = {
    ItemState.START: "started",
    ItemState.OK: "done",
    ItemState.FAILED: "failed",
    ItemState.RETRY: "failed, is tried again",
}
MOST_PAIRS = 8
MOST_OUTPUT_LINES = 5  # lines of a failed item's output


class _Curve(Struct, frozen=True):
    """A device, and its readings in the latest samples."""

    device: RunDevice
    readings: Sequence[Mapping[str, Any]]

    def values(self, name: str) -> list[float | None]:
        return [reading.get(name) for reading in self.readings]

    def last(self, name: str) -> float | None:
        return self.readings[-1].get(name) if self.readings else None


def render_tail(recent: RecentLines, state: RunState, now: float, width: int) -> Iterator[Text]:
    """The head, the devices, and the latest events below."""
    begin = recent.begin
    if begin is None:
        return
    yield _head(begin, recent, state, now).fit(width)
    curves = [
        _Curve(device, [sample.devices.get(device.uuid, {}) for sample in recent.samples])
        for device in begin.devices
    ]
    if recent.samples and curves:
        yield from draw(_COLUMNS, [TableRow(curve) for curve in curves], width)
    elif curves:
        yield styled("no samples yet" if recent.end is None else "no samples", "dim")
    yield from curve_rows(recent.curves.result(), width, MOST_PAIRS)
    for happening in recent.happenings:
        for text in happening_texts(happening):
            yield text.fit(width)


def line_texts(line: RunLine, begin: RunBegin) -> list[Text]:
    """One new line of a record, for output that is not redrawn."""
    if isinstance(line, RunSample):
        return [_sample_text(line, begin)]
    return happening_texts(line) if isinstance(line, Happening) else []


def happening_texts(line: Happening) -> list[Text]:
    """Returns the line, and for a failed item the end of its output."""
    texts = [_happening(line)]
    if isinstance(line, RunItem) and line.state in (ItemState.FAILED, ItemState.RETRY):
        output = [one for one in (line.output or "").splitlines() if one.strip()]
        texts += [styled(f"            {one}", "dim") for one in output[-MOST_OUTPUT_LINES:]]
    return texts


def _happening(line: Happening) -> Text:
    at = styled(f"{clock(line.at)}  ", "dim")
    match line:
        case RunItem():
            return at + _item(line)
        case RunLogged():
            step = "" if line.step is None else f"step {line.step:.15g}  "
            return (
                at + styled(step) + styled(_pairs({n: number(v) for n, v in line.values.items()}))
            )
        case RunAlert():
            style = "red" if line.level == "critical" else "yellow"
            return at + styled(f"{line.level} {line.state}", style) + styled(f"  {line.message}")
        case RunEvent():
            return at + styled(line.name, "bold") + styled(f"  {_pairs(line.data)}")


def _item(line: RunItem) -> Text:
    """`item no. 33 "clip.wav" failed on GPU 0 in 2.1 s (attempt 2)`."""
    text = styled(f'item no. {line.index} "{line.item}" ')
    text += styled(ITEM_TEXTS[line.state], ITEM_STYLES.get(line.state, ""))
    where = f" on GPU {line.device}" if line.device else ""
    took = Text() if line.runtime_seconds is None else styled(" in ") + length(line.runtime_seconds)
    again = [f"attempt {line.attempt}"] if line.attempt > 1 else []
    if line.begun_before:
        again.append("begun before, by a map that was killed")
    return text + styled(where) + took + styled(f" ({', '.join(again)})" if again else "", "dim")


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in list(values.items())[:MOST_PAIRS])


def _head(begin: RunBegin, recent: RecentLines, state: RunState, now: float) -> Text:
    mark = styled("SIMULATED ", "reverse") if begin.simulated else Text()
    last = now if state is RunState.RUNNING else recent.last_at
    took = recent.end.duration_seconds if recent.end else max(0.0, (last or begin.at) - begin.at)
    devices = models_text(device.name for device in begin.devices)
    where = f" on {begin.node}" + (f": {devices}" if devices else "")
    named = mark + styled(begin.name, "bold") + styled(f" ({begin.id}): ") + state_text(state)
    logged = [line for line in recent.happenings if isinstance(line, RunLogged)]
    printed = recent.samples[-1].progress if recent.samples else None
    progress = (logged_progress(logged) or printed) if state is RunState.RUNNING else None
    where += "" if progress is None else f"; {progress.text(now)}"
    joint = " for " if state is RunState.RUNNING else " after "
    message = f"; {recent.end.message}" if recent.end and recent.end.message else ""
    return named + styled(joint) + length(took) + styled(where + message)


def _sample_text(line: RunSample, begin: RunBegin) -> Text:
    parts = []
    for device in begin.devices:
        readings = line.devices.get(device.uuid, {})
        parts.append(f"GPU {device.label} {_percent(readings.get('utilization_percent'))}")
        parts[-1] += f" {_bytes(readings.get('memory_used_bytes'))}"
    return styled(f"{clock(line.at)}  ", "dim") + styled(", ".join(parts))


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{fixed(value)} %"


def _bytes(value: float | None) -> str:
    return UNKNOWN if value is None else human_bytes(value)


def _memory(curve: _Curve) -> Text:
    total = curve.device.memory_total_bytes
    return styled(sparkline(curve.values("memory_used_bytes"), 0.0, total))


def _reading(name: str, unit: str) -> "TableColumn[_Curve]":
    titles = {"temperature_celsius": "TEMP", "power_watts": "POWER"}

    def cell(curve: _Curve) -> Text:
        return known(curve.last(name), lambda value: f"{fixed(value)} {unit}")

    return TableColumn(titles[name], cell, rank=2, right=True)


_COLUMNS: Sequence[TableColumn[_Curve]] = (
    TableColumn("GPU", lambda curve: styled(curve.device.label), lead=True, right=True),
    TableColumn("MODEL", lambda curve: styled(short_model(curve.device.name)), rank=3, elastic=6),
    TableColumn("UTIL", lambda curve: styled(sparkline(curve.values("utilization_percent")))),
    TableColumn("", lambda curve: styled(_percent(curve.last("utilization_percent"))), right=True),
    TableColumn("MEMORY", _memory),
    TableColumn("", lambda curve: known(curve.last("memory_used_bytes"), human_bytes), right=True),
    _reading("temperature_celsius", "°C"),
    _reading("power_watts", "W"),
)
