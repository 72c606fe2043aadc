"""`andon history`: what the devices did, and who was on them."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

import click

from andon.cli import history_text, looking
from andon.cli.history_text import Line
from andon.cli.options import chosen, shared, whole
from andon.cli.status import as_json_text
from andon.cli.terminal import Terminal
from andon.core.series import HOST, HOST_METRICS, METRICS
from andon.errors import Gone, Unavailable
from andon.model import wire
from andon.model.device import Device
from andon.ports import Directory, Store
from andon.units import parse_seconds

if TYPE_CHECKING:
    from andon.core.settings import Settings

SHOWN = ("utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
SHOWN_HOST = ("cpu_percent", "memory_used_bytes", "load_1m")
FILE_POINTS = 300
MOST_POINTS = 100_000
NOTHING = "andon serve records; andon seed makes up a past to try this with"


def moment(text: str) -> float:
    """`2h` ago, `now`, or a time such as 2026-11-15T03:00."""
    if text == "now":
        return time.time()
    try:
        return time.time() - parse_seconds(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as exc:
        raise click.BadParameter(f"{text!r} is no time such as 24h or 2026-11-15T03:00") from exc


def metric_names(text: str) -> tuple[str, ...]:
    """Readings, with commas between them."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    known = {*METRICS, *HOST_METRICS}
    wrong = [name for name in names if name not in known]
    if wrong:
        from difflib import get_close_matches

        near = get_close_matches(wrong[0], sorted(known), n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise click.BadParameter(f"there is no reading {wrong[0]!r}{meant}")
    return names


@click.command()
@click.argument("device", required=False)
@click.option("--metric", "-m", "metrics", type=metric_names, metavar="NAME,…", help="Which ones.")
@click.option("--since", default="24h", type=moment, metavar="WHEN", help="From: 24h, or a time.")
@click.option("--until", default="now", type=moment, metavar="WHEN", help="To: now, 2h, or a time.")
@click.option("--points", "-n", type=whole, metavar="N", help="In how many parts.")
@click.option("--who", is_flag=True, help="Who was on it, from when until when.")
@click.option("--json", "form", flag_value="json", help="Print andon.history/1: UTC, bytes.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV, one row per part.")
@click.option("--jsonl", "form", flag_value="jsonl", help="Print one JSON object per part.")
@shared
def history(
    device: str | None,
    metrics: tuple[str, ...] | None,
    since: float,
    until: float,
    points: int | None,
    who: bool,
    form: str | None,
) -> int:
    """Print what the devices did, or with --who, who was on them.

    DEVICE is an index, a UUID or its beginning, or "host" for the node itself; else all
    devices are shown. The lines run from the earliest to the latest; a gap is time in which
    nothing was recorded. `andon serve` records.
    """
    if since >= until:
        raise click.UsageError("--since must be earlier than --until")
    if points is not None and points > MOST_POINTS:
        raise click.UsageError(f"{MOST_POINTS} points are the most")
    settings, terminal = looking.settings_of(chosen()), Terminal.of(chosen())
    store, directory = _opened(settings)
    try:
        found = _devices(directory, device)
        if who:
            text = _who(store, directory.devices(), found, since, until, form, terminal)
        else:
            count = points or (FILE_POINTS if form else history_text.sparks_at(terminal.width))
            lines = _lines(store, found, metrics, since, until, count)
            text = _history(lines, since, until, form, terminal)
    finally:
        store.close()
    terminal.show(text)
    return 0


def _opened(settings: "Settings") -> tuple[Store, Directory]:
    from andon import app

    path = app.history_path(settings)
    if not path.exists():
        raise Unavailable(f"nothing has been recorded yet: there is no {path}", hint=NOTHING)
    store = app.open_store(settings, readonly=True)
    return store, cast("Directory", store)


def _devices(directory: Directory, name: str | None) -> list[Device | None]:
    """Those that were meant; None is the node itself."""
    known = list(directory.devices())
    if name == HOST:
        return [None]
    if name is None:
        return [*known] or [None]
    found = [d for d in known if str(d.index) == name]
    if not found and len(name) >= 4:
        found = [d for d in known if d.uuid.lower().startswith(name.lower())]
    if not found:
        listed = ", ".join(str(d.index) for d in known) or "none"
        raise Gone(f"there is no device {name!r} in the history", hint=f"recorded: {listed}")
    return [*found]


def _lines(
    store: Store,
    devices: Sequence[Device | None],
    metrics: tuple[str, ...] | None,
    since: float,
    until: float,
    points: int,
) -> list[Line]:
    out = []
    for device in devices:
        uuid = HOST if device is None else device.uuid
        for metric in metrics or (SHOWN_HOST if device is None else SHOWN):
            found = store.history(uuid, metric, since, until, points)
            out.append(Line(device, uuid, metric, found))
    return out


def _history(
    lines: list[Line], since: float, until: float, form: str | None, terminal: Terminal
) -> str:
    if form == "json":
        return as_json_text(history_text.history_to_json(lines, since, until), terminal.live)
    if form == "csv":
        return history_text.history_to_csv(lines)
    if form == "jsonl":
        return "".join(wire.dumps(row) + "\n" for row in history_text.history_to_rows(lines))
    return history_text.render_history(lines, since, until, terminal.width, terminal.color)


def _who(
    store: Store,
    known: Sequence[Device],
    devices: Sequence[Device | None],
    since: float,
    until: float,
    form: str | None,
    terminal: Terminal,
) -> str:
    meant = {device.uuid for device in devices if device is not None}
    uses = [use for use in store.uses(None, since, until) if use.device in meant]
    if form == "json":
        return as_json_text(history_text.uses_to_json(uses), terminal.live)
    if form == "csv":
        return history_text.uses_to_csv(uses)
    if form == "jsonl":
        return "".join(wire.dumps(row) + "\n" for row in history_text.uses_to_rows(uses))
    return history_text.render_uses(uses, known, time.time(), terminal.width, terminal.color)
