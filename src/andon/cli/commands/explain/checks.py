"""`andon checks`: the results of earlier checks by card, and how its numbers changed."""

import time

import click

from andon.checks.store import stored_checks
from andon.cli.options import chosen, shared, with_devices
from andon.cli.show.reports.checks import render_history
from andon.cli.terminal import Terminal
from andon.errors import Gone
from andon.model.check import CHECKS_SCHEMA
from andon.model.codec import document

MOST = 20


@click.command()
@with_devices()
@click.option("--limit", type=click.IntRange(min=1), default=MOST, show_default=True, metavar="N")
@click.option("--json", "as_json", is_flag=True, help="Print andon.checks/1: all of them.")
@shared
def checks(devices: list[str], limit: int, as_json: bool) -> int:
    """List earlier checks of this machine's GPUs, newest first, and the drift since the first.

    They are this user's own: andon check stores them.
    """
    found = stored_checks()
    if devices:
        found = [
            one
            for one in found
            if any(one.label == name or one.uuid.startswith(name) for name in devices)
        ]
        if not found:
            raise Gone(f"no check of GPU {', '.join(devices)} is stored", hint="andon check")
    terminal = Terminal.of(chosen())
    if as_json:
        checks = [document(one) for one in reversed(found)]
        terminal.show_json({"schema": CHECKS_SCHEMA, "checks": checks, "peers": []})
    else:
        terminal.print(*render_history(found, terminal.width, time.time())[: limit + 1])
    return 0
