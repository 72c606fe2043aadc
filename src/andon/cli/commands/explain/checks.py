"""`andon checks`: the results of earlier checks by card, and how its numbers changed."""

import time

import click

from andon.checks.store import stored_checks
from andon.cli.options import chosen, elsewhere, shared, with_devices
from andon.cli.show.reports.checks import render_history
from andon.cli.sources import node_of
from andon.cli.terminal import Terminal
from andon.errors import Gone
from andon.model.check import CheckList
from andon.model.codec import document

MOST = 20


@click.command()
@with_devices()
@click.option("--limit", type=click.IntRange(min=1), default=MOST, show_default=True, metavar="N")
@click.option(
    "--json", "as_json", is_flag=True, help="Print andon.checks/1: all, the oldest first."
)
@elsewhere
@shared
def checks(devices: list[str], limit: int, as_json: bool) -> int:
    """List earlier checks of GPUs, newest first, and the drift since the first.

    Here they are this user's own; with --url those of whoever runs the server, with the --url of a
    hub the last few of each node, with --ssh yours on that host.
    """
    choices = chosen()
    found = stored_checks() if choices.url is None else node_of(choices).past.checks()
    if devices:
        found = [
            one
            for one in found
            if any(one.label == name or one.uuid.startswith(name) for name in devices)
        ]
        if not found:
            raise Gone(f"no check of GPU {', '.join(devices)} is stored", hint="andon check")
    terminal = Terminal.of(choices)
    if as_json:
        terminal.show_json(document(CheckList(tuple(found))))
    else:
        terminal.print(*render_history(found, terminal.width, time.time())[: limit + 1])
    return 0
