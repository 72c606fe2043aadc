"""`andon history`: past readings, and who used the devices."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec import Struct

from andon.cli.moments import moment, since_option
from andon.cli.options import DEVICE_FORMS, chosen, elsewhere, shared, whole, with_devices
from andon.cli.show import history as history_text
from andon.cli.show import history_parquet
from andon.cli.show.history import HistoryLine, UsageReport, throttle_lines
from andon.cli.show.text import painted
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal, notice
from andon.errors import AndonError, Gone
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import LONGEST_NOTE, HistoryNote
from andon.history.rules.series import HOST, HOST_METRICS, METRICS, USED, summary
from andon.host.users import user_name
from andon.model import wire
from andon.model.codec import document, to_json
from andon.model.device import Device
from andon.model.naming import device_named, recorded_named
from andon.node.port import NodePast
from andon.units import counted


class HistoryView(Struct, frozen=True):
    """What to show, and how."""

    since: float
    until: float
    form: str | None
    file: Path | None
    terminal: Terminal

    @property
    def drawn(self) -> bool:
        """Whether it is for a person, and not for a program or a file."""
        return self.form is None and self.file is None

    @property
    def points(self) -> int:
        """The number of intervals if --points is not given."""
        return history_text.sparks_at(self.terminal.width) if self.drawn else FILE_POINTS


THROTTLE = "throttle"
TOPS = {
    "memory_used_bytes": ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"),
    "power_watts": ("power_limit_watts",),
}
"""The readings that say how far another one can go."""
SHOWN = ("utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
SHOWN_HOST = (
    "cpu_percent", "memory_used_bytes", "load_1m", "disk_read_bytes_per_second",
    "disk_written_bytes_per_second", "network_received_bytes_per_second",
    "network_sent_bytes_per_second",
)  # fmt: skip
FILE_POINTS = 300
RECENT_SECONDS = 600
MOST_POINTS = 100_000
READINGS = (
    f"Readings of a GPU: {', '.join((*METRICS, *USED))}. Of host: {', '.join(HOST_METRICS)}. A "
    "prefix of a name is enough."
)
_FILE = click.Path(dir_okay=False, path_type=Path)


def metric_names(text: str) -> tuple[str, ...]:
    """Names of readings or their beginnings, separated by commas."""
    known = {*METRICS, *USED, *HOST_METRICS}
    names = tuple(_whole_name(name.strip(), known) for name in text.split(",") if name.strip())
    wrong = [name for name in names if name not in known]
    if wrong:
        near = get_close_matches(wrong[0], sorted(known), n=1)
        suggestion = (
            f"; did you mean {near[0]}?" if near else f" (known: {', '.join(sorted(known))})"
        )
        raise click.BadParameter(f"unknown reading {wrong[0]!r}{suggestion}")
    return names


def _whole_name(name: str, known: AbstractSet[str]) -> str:
    """Returns the full name: `util` is utilization_percent, if only one reading begins so."""
    found = [one for one in sorted(known) if one.startswith(name)]
    return found[0] if len(found) == 1 and name not in known else name


@click.command(epilog=READINGS)
@with_devices(f"Only these GPUs: {DEVICE_FORMS}; or host.")
@click.option(
    "--metric",
    "-m",
    "metrics",
    type=metric_names,
    metavar="NAME,…",
    help="Which readings [default: utilisation, memory, temperature and power].",
)
@since_option
@click.option(
    "--until",
    default="now",
    show_default=True,
    type=moment,
    metavar="WHEN",
    help="End: 2h, 'today 9:00'.",
)
@click.option("--points", "-n", type=whole, metavar="N", help="Number of intervals.")
@click.option("--who", is_flag=True, help="Who used the device, and when.")
@click.option("--note", metavar="TEXT", help="Write a note on the time from --since to --until.")
@click.option("--remove-note", "removed", metavar="ID", help="Remove a note.")
@click.option("--json", "form", flag_value="json", help="Print andon.history/1: UTC, bytes.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV, one row per interval.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print one JSON object per interval.")
@click.option("--parquet", type=_FILE, metavar="FILE", help="Write a Parquet file (pyarrow).")
@elsewhere
@shared
def history(
    devices: list[str],
    metrics: tuple[str, ...] | None,
    since: float,
    until: float,
    points: int | None,
    who: bool,
    note: str | None,
    removed: str | None,
    form: str | None,
    parquet: Path | None,
) -> int:
    """Print past readings and notes, or with --who, who used the devices.

    DEVICE is an index, 6:0, a UUID or its prefix, a PCI address, or "host" for the node itself; by
    default all devices are shown. Charts run from the earliest reading to the latest, and from zero
    to the value under OF; a gap means that nothing was recorded. -m throttle shows the share of
    time of each reason. `andon serve` records the history. Users without a server of their own see
    that of the machine's server. A --note is on the devices, or without one on the node; on this
    moment, or if --since is given, on the time from there.
    """
    if note is not None or removed is not None:
        source = click.get_current_context().get_parameter_source("since")
        since = until if source is ParameterSource.DEFAULT else since
        return _remark(devices, since, until, note, removed)
    if since >= until:
        raise click.UsageError("--since must be earlier than --until")
    if points is not None and points > MOST_POINTS:
        raise click.UsageError(f"at most {MOST_POINTS} points")
    if parquet is not None and form is not None:
        raise click.UsageError(f"--parquet and --{form} cannot be combined")
    if parquet is not None:
        history_parquet.check_packages()
    terminal = Terminal.of(chosen())
    shown = HistoryView(since, until, form, parquet, terminal)
    past = node_of(chosen()).past
    known = list(past.devices())
    found = _devices(known, devices)
    if who:
        latest = _latest(past, found)  # first: meanwhile the uses become longer
        text = _who(_uses(past, found, shown), latest, known, shown)
    else:
        notes = _notes(past, found, shown)
        text = _history(_lines(past, found, metrics, points, shown), known, notes, shown)
    (terminal.show if shown.drawn else terminal.show_data)(text)
    return 0


def _remark(
    devices: Sequence[str], since: float, until: float, text: str | None, removed: str | None
) -> int:
    """Writes a note on each device, or on the node, and removes the one that was named."""
    past, terminal = node_of(chosen()).past, Terminal.of(chosen())
    if text is not None:
        if since > until:
            raise click.UsageError("--since must not be later than --until")
        if not text.strip() or len(text) > LONGEST_NOTE:
            raise click.BadParameter(f"a note has 1 to {LONGEST_NOTE} characters")
        found = _devices(list(past.devices()), devices) if devices else [None]
        for device in found:
            uuid = None if device is None else device.uuid
            by = user_name(os.getuid()) if hasattr(os, "getuid") else ""
            note = HistoryNote("new", time.time(), since, until, text, uuid, by)
            terminal.remark(f"note {past.add_note(note).id} was written")
    if removed is not None:
        past.remove_note(removed)
        terminal.remark(f"note {removed} was removed")
    return 0


def _notes(
    past: NodePast, devices: Sequence[Device | None], shown: HistoryView
) -> Sequence[HistoryNote]:
    """Returns the notes on these devices and the node; says why if they cannot be read."""
    if not shown.drawn and shown.form != "json":
        return ()
    uuids = {None, *(device.uuid for device in devices if device is not None)}
    try:
        found = past.notes(None, shown.since, shown.until)
    except AndonError as error:
        notice(f"notes are not shown: {error.reason}", chosen())
        return ()
    return [note for note in found if note.device in uuids]


def _devices(known: Sequence[Device], names: Sequence[str]) -> list[Device | None]:
    """The devices that match; None is the node itself."""
    if not names:
        return [*known] or [None]
    return [None if name == HOST else recorded_device(known, name) for name in names]


def recorded_device(known: Sequence[Device], name: str) -> Device:
    """Finds a device by its recorded facts; `6:0` and `cuda:0` are only valid on the live node."""
    try:
        return recorded_named(name, known)
    except Gone:
        if ":" not in name:
            raise
        now = node_of(chosen()).live.read().devices
        return recorded_named(device_named(name, now).device.uuid, known)


def _lines(
    past: NodePast,
    devices: Sequence[Device | None],
    metrics: tuple[str, ...] | None,
    points: int | None,
    shown: HistoryView,
) -> list[HistoryLine]:
    out = []
    for device in devices:
        uuid = HOST if device is None else device.uuid
        span = (shown.since, shown.until, points or shown.points)
        for metric in metrics or (SHOWN_HOST if device is None else SHOWN):
            if metric == THROTTLE:
                out += throttle_lines(device, uuid, past.throttle_shares(uuid, *span), *span)
                continue
            found = past.history(uuid, metric, *span)
            top = _top(past, uuid, metric, span) if shown.drawn else None
            out.append(HistoryLine(device, uuid, metric, found, top))
    return out


def _top(past: NodePast, uuid: str, metric: str, span: tuple[float, float, int]) -> float | None:
    """The top of a chart's scale: all of the memory, the power limit; None where it is fixed."""
    parts = TOPS.get(metric, ()) if uuid != HOST else ()
    wholes = [summary(past.history(uuid, part, *span)) for part in parts]
    values = [whole.max for whole in wholes if whole is not None and whole.max is not None]
    if metric != "memory_used_bytes" or not parts:
        return max(values, default=None)
    # Used and free memory add up at every instant; their extremes do not.
    means = [whole.mean for whole in wholes if whole is not None and whole.mean is not None]
    return sum(means) if len(means) == len(parts) else None


def _uses(
    past: NodePast, devices: Sequence[Device | None], shown: HistoryView
) -> list[UsageInterval]:
    uuids = {device.uuid for device in devices if device is not None}
    return [use for use in past.usage(None, shown.since, shown.until) if use.device in uuids]


def _history(
    lines: list[HistoryLine],
    known: Sequence[Device],
    notes: Sequence[HistoryNote],
    shown: HistoryView,
) -> str:
    terminal, span = shown.terminal, (shown.since, shown.until)
    if shown.file is not None:
        rows = history_text.history_to_rows(lines)
        return _written(shown.file, rows, history_parquet.HISTORY, history_text.HISTORY)
    if shown.form == "json":
        found = history_text.history_to_json(lines, *span)
        return terminal.json_text({**found, "notes": to_json(notes)})
    if shown.form == "csv":
        return history_text.BUCKETS.text(history_text.history_to_rows(lines))
    if shown.form == "jsonl":
        return "".join(wire.dumps(row) + "\n" for row in history_text.history_to_rows(lines))
    drawn = history_text.render_history(lines, *span, terminal.width)
    return painted(
        [*drawn, *history_text.render_notes(notes, known, terminal.width)], terminal.color
    )


def _latest(past: NodePast, devices: Sequence[Device | None]) -> dict[str, float]:
    """Returns when each device was last read, to a second; without those not read lately."""
    now = time.time()
    span = now - RECENT_SECONDS, now, RECENT_SECONDS
    uuids = [device.uuid for device in devices if device is not None]
    found = {uuid: past.history(uuid, "utilization_percent", *span) for uuid in uuids}
    read = {uuid: [b.since for b in buckets if b.count] for uuid, buckets in found.items()}
    return {uuid: times[-1] for uuid, times in read.items() if times}


def _who(
    uses: list[UsageInterval],
    latest: Mapping[str, float],
    known: Sequence[Device],
    shown: HistoryView,
) -> str:
    terminal, rows = shown.terminal, to_json(uses)
    if shown.file is not None:
        return _written(shown.file, rows, history_parquet.USAGE, UsageReport.schema)
    if shown.form == "json":
        return terminal.json_text(document(UsageReport(uses)))
    if shown.form == "csv":
        return history_text.USES.text(uses)
    if shown.form == "jsonl":
        return "".join(wire.dumps(row) + "\n" for row in rows)
    return painted(history_text.render_uses(uses, known, latest, terminal.width), terminal.color)


def _written(path: Path, rows: Iterable[wire.Json], columns: Mapping[str, str], schema: str) -> str:
    count = history_parquet.write(path, rows, columns, schema)
    notice(f"{path}: {counted(count, 'row')}", chosen())
    return ""
