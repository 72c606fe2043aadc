"""Renders one run: its facts, and its use of each device."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from andon.cli.show.runs.cells import joules, length
from andon.cli.show.runs.curves import curve_rows
from andon.cli.show.runs.listing import state_text
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, percent, styled
from andon.model.naming import short_model
from andon.model.run.record import WAITED, RunBegin, RunDevice, RunEnd, RunRow, RunState
from andon.runs.files import RecordRead
from andon.runs.rules.matching import devices_text
from andon.units import and_more, fixed, human_bytes, measured_seconds

WIDTH = 11
MOST_PAIRS = 20
LOCAL_SHOWN = 19  # characters of an ISO time without its fraction


class UsedDevice(Struct, frozen=True):
    """A device of the run and its summary, as the record has it."""

    device: RunDevice
    used: Mapping[str, Any]

    def spread(self, name: str) -> Mapping[str, Any]:
        found = self.used.get(name)
        return found if isinstance(found, Mapping) else {}


def render_run(row: RunRow, read: RecordRead, now: float, width: int) -> Iterator[Text]:
    """The head, the facts, the devices and what to know about the record."""
    yield _head(row, read, now)
    for label, value in _facts(row, read):
        yield (styled(f"  {label}".ljust(WIDTH + 2), "dim") + styled(value)).fit(width)
    devices = _devices(read)
    if devices:
        yield Text()
        yield from draw(_COLUMNS, [TableRow(device) for device in devices], width)
    yield from curve_rows(read.fold.curves(), width)
    for remark in _remarks(row, read):
        yield styled(remark, "yellow")


def _head(row: RunRow, read: RecordRead, now: float) -> Text:
    mark = styled("SIMULATED ", "reverse") if row.simulated else Text()
    took = read.fold.duration_seconds(row.state is RunState.RUNNING, now)
    head = mark + styled(row.name, "bold") + styled(f" ({row.id}): ") + state_text(row.state)
    if took is not None:
        head += styled(" for " if row.state is RunState.RUNNING else " after ") + length(took)
    if row.progress is not None:
        head += styled(f"; {row.progress.text(now)}")
    end = read.fold.end
    return head + styled(_ending(end)) if end is not None else head


def _ending(end: RunEnd) -> str:
    code = "" if end.exit_code in (None, 0) else f", exit code {end.exit_code}"
    signal = "" if end.signal is None else f", signal {end.signal}"
    return code + signal + (f": {end.message}" if end.message else "")


def _facts(row: RunRow, read: RecordRead) -> Iterator[tuple[str, str]]:
    begin, facts = read.begin, read.fold.facts
    by = f" by {row.user}" if row.user else ""
    known: dict[str, str | None] = {
        "began": f"{_local(begin.at)} on {begin.node}{by}",
        "command": begin.command,
        "folder": begin.working_directory,
        "GPU": _chosen(row, begin),
        "loop": _loop(read.fold.last_values),
        "group": _group(begin),
        "parent": begin.parent,
        "params": _pairs(begin.params),
        "tags": " ".join(row.tags),
        "note": row.note,
    }
    if facts is not None:
        git, reason = facts.git, facts.git_reason
        dirty = {True: " with changes", False: "", None: ""}
        known["git"] = f"{git.commit[:12]}{dirty[git.dirty]}" if git else reason
        known["versions"] = ", ".join(f"{name} {one}" for name, one in facts.versions.items())
    known["record"] = f"{row.path} ({human_bytes(read.size_bytes)})"
    yield from ((label, value) for label, value in known.items() if value)


def _chosen(row: RunRow, begin: RunBegin) -> str | None:
    models = devices_text(row)
    if not models:
        return None
    parts = [f"{models}: GPU {', '.join(device.label for device in begin.devices)}"]
    if begin.allocation_method:
        parts.append(f"chosen by {begin.allocation_method}")
    if begin.waited_seconds is not None and begin.waited_seconds >= 1:
        parts.append(f"waited {measured_seconds(begin.waited_seconds)}")
    return "; ".join(parts)


def _loop(values: Mapping[str, float]) -> str | None:
    share = values.get(WAITED)
    return None if share is None else f"waited for data {fixed(share)} % of the time"


def _group(begin: RunBegin) -> str | None:
    if begin.rank is None:
        return begin.group
    of = "" if begin.world_size is None else f" of {begin.world_size}"
    return f"{begin.group or ''} rank {begin.rank}{of}".strip()


def _pairs(values: Mapping[str, Any]) -> str:
    shown = [f"{name}={value}" for name, value in list(values.items())[:MOST_PAIRS]]
    return " ".join(shown) + and_more(len(values) - len(shown))


def _local(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(" ")[:LOCAL_SHOWN]


def _devices(read: RecordRead) -> list[UsedDevice]:
    summary = read.fold.summary()
    return [UsedDevice(one, summary[one.uuid]) for one in read.begin.devices if one.uuid in summary]


def _remarks(row: RunRow, read: RecordRead) -> Iterator[str]:
    end = read.fold.end
    if end is not None and end.no_samples_reason:
        yield f"no samples: {end.no_samples_reason}"
    if end is not None and end.dropped:
        yield f"{end.dropped} lines could not be written in time"
    if row.state is RunState.LOST and end is None:
        last = read.fold.last_at
        when = "" if last is None else f", its last line is from {_local(last)}"
        yield f"its process is gone; the record has no end{when}"
    if not read.whole and end is None:
        yield f"the record is {human_bytes(read.size_bytes)}: only its two ends were read"
    if read.unreadable:
        lines = "line" if read.unreadable == 1 else "lines"
        yield f"{read.unreadable} {lines} could not be read: {read.problem}"


def _mean(name: str, unit: str) -> "TableColumn[UsedDevice]":
    def cell(one: UsedDevice) -> Text:
        spread = one.spread(name)
        mean, low, high = (spread.get(key) for key in ("mean", "min", "max"))
        if mean is None or low is None or high is None:
            return known(None)
        return styled(f"{fixed(mean)} {unit}") + styled(f" ({fixed(low)}-{fixed(high)})", "dim")

    titles = {"utilization_percent": "UTIL", "temperature_celsius": "TEMP", "power_watts": "POWER"}
    return TableColumn(titles[name], cell, rank=1, right=True)


def _idle(one: UsedDevice) -> Text:
    share = one.used.get("idle_share")
    return percent(None if share is None else share * 100)


def _energy(one: UsedDevice) -> Text:
    return joules(one.used.get("energy_joules"), one.used.get("energy_source"))


_COLUMNS: Sequence[TableColumn[UsedDevice]] = (
    TableColumn("GPU", lambda one: styled(one.device.label), lead=True, right=True),
    TableColumn("MODEL", lambda one: styled(short_model(one.device.name)), elastic=6),
    _mean("utilization_percent", "%"),
    TableColumn("IDLE", _idle, rank=2, right=True),
    TableColumn(
        "PEAK", lambda one: known(one.used.get("peak_memory_bytes"), human_bytes), right=True
    ),
    _mean("temperature_celsius", "°C"),
    _mean("power_watts", "W"),
    TableColumn("ENERGY", _energy, rank=2, right=True),
)
