"""`andon status`: one line per device, now."""

import time
from importlib import import_module
from typing import TYPE_CHECKING

import click

from andon.cli.json_text import as_json_text as as_json_text
from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.text import WIDE
from andon.cli.snapshot_source import mask_of, narrowed, told_or_read, told_snapshot
from andon.cli.sources import rulebook_of
from andon.cli.terminal import Terminal
from andon.model import wire
from andon.model.device import Snapshot, State

if TYPE_CHECKING:
    from andon.sampling.rules.told import ServerSnapshot

NO_DEVICE = 3
SHOWN_WITH = (
    "andon.alerts.rules.glance",
    "andon.app.thresholds",
    "andon.cli.availability_source",
    "andon.cli.lamp_source",
    "andon.cli.show.render",
    "andon.explain.conditions.triggers",
    "andon.leases.book.places",
    "andon.leases.rules.verdict",
)
HINT = "Next: andon watch (live), andon ps (processes), andon --help"


@click.command()
@with_devices()
@click.option("--json", "as_json", is_flag=True, help="Print andon.snapshot/1: UTC, bytes.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per device.")
@click.option("--only-visible", is_flag=True, help="Leave out devices hidden by a mask.")
@click.option("--verbose", "-v", is_flag=True, help="Say why each missing value is missing.")
@fresh_option
@elsewhere
@shared
def status(
    devices: list[str], as_json: bool, as_csv: bool, only_visible: bool, verbose: bool
) -> int:
    """Print one line per device: utilisation, memory, temperature, power, and who uses it.

    The last line says which GPUs are free to use. A dash is a value that the device does not
    report; 0 % is a reading. Wider terminals show more columns; from 160 on also values that need a
    second reading: SM activity, and the traffic over PCIe and NVLink. The exit code is 0 if a
    device responds or is asleep, else 3.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv cannot be combined")
    terminal = Terminal.of(chosen())
    is_table = not as_json and not as_csv
    wide = terminal.width >= WIDE
    told = told_snapshot(chosen(), commands=wide or verbose or not is_table)
    snapshot, told = told_or_read(chosen(), told, twice=is_table and wide, meanwhile=_load)
    named = narrowed(snapshot, devices)
    shown = _visible(named) if only_visible else named
    if as_json:
        terminal.show(as_json_text(wire.snapshot_to_json(shown), terminal.live))
    elif as_csv:
        from andon.cli.show import csv_rows

        terminal.show(csv_rows.header() + "".join(csv_rows.device_rows(shown)))
    else:
        _show(shown, named, snapshot, told, terminal, verbose)
    return exit_code(shown)


def _load() -> None:
    """Import what the table needs while the driver is opened, which takes as long."""
    for module in SHOWN_WITH:
        import_module(module)


def _visible(snapshot: Snapshot) -> Snapshot:
    from andon.cli.show.entries import only_visible

    return only_visible(snapshot)


def exit_code(snapshot: Snapshot) -> int:
    fine = any(s.state in (State.OK, State.ASLEEP) for s in snapshot.devices)
    return 0 if fine else NO_DEVICE


def _show(
    shown: Snapshot,
    named: Snapshot,
    whole: Snapshot,
    told: "ServerSnapshot | None",
    terminal: Terminal,
    verbose: bool,
) -> None:
    from andon.cli.availability_source import availability_in, availability_lines
    from andon.cli.show.render import paragraph, render_status

    choices = chosen()
    mask = mask_of(whole, len(named.devices) - len(shown.devices), choices.url)
    book, now = rulebook_of(choices), time.time()
    known = availability_in(choices, whole, told)
    lit = None if told is None else told.lamps
    if lit is None:
        from andon.cli.lamp_source import LampSource

        lit = LampSource(choices).of(whole)
    terminal.show(
        render_status(
            shown,
            terminal.width,
            terminal.color,
            now,
            verbose,
            mask,
            book,
            lit,
            known.verdicts,
        )
    )
    for line in availability_lines(known, shown):
        terminal.say(line.fit(terminal.width))
    if choices.bare and terminal.live and not choices.quiet and shown.devices:
        for text in paragraph(HINT, terminal.width, "dim"):
            terminal.say(text)
