"""The table of `andon status`. `andon` alone prints it without a parser of options, whose import
takes as long as the table."""

import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from andon.cli.show.text import WIDE
from andon.cli.snapshot_source import mask_of, narrowed, told_or_read, told_snapshot
from andon.cli.sources import rulebook_of
from andon.cli.terminal import Choices, Terminal, guarded, reopen_closed
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


def run_without_options(bare: bool) -> int:
    """Runs `andon` (`bare`) or `andon status`; returns the exit code."""
    reopen_closed()
    return guarded(lambda: print_status(Choices(bare=bare)))


def print_status(
    choices: Choices,
    devices: Sequence[str] = (),
    as_json: bool = False,
    as_csv: bool = False,
    only_visible: bool = False,
    verbose: bool = False,
) -> int:
    """Prints one line per device, now; returns the exit code."""
    terminal = Terminal.of(choices)
    is_table = not as_json and not as_csv
    wide = terminal.width >= WIDE
    told = told_snapshot(choices, commands=wide or verbose or not is_table)
    snapshot, told = told_or_read(choices, told, twice=is_table and wide, meanwhile=_load)
    named = narrowed(snapshot, devices)
    shown = _visible(named) if only_visible else named
    if as_json:
        from andon.cli.json_text import as_json_text
        from andon.model import wire

        terminal.show(as_json_text(wire.snapshot_to_json(shown), terminal.live))
    elif as_csv:
        from andon.cli.show import csv_rows

        terminal.show(csv_rows.header() + "".join(csv_rows.device_rows(shown)))
    else:
        _show(choices, shown, named, snapshot, told, terminal, verbose)
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
    choices: Choices,
    shown: Snapshot,
    named: Snapshot,
    whole: Snapshot,
    told: "ServerSnapshot | None",
    terminal: Terminal,
    verbose: bool,
) -> None:
    from andon.cli.availability_source import availability_in, availability_lines
    from andon.cli.show.render import paragraph, render_status

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
