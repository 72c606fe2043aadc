"""`andon agent`: reports this machine to a hub."""

import signal
import threading

import click

from andon.app.settings import load_settings
from andon.cli.options import chosen, shared, store_option
from andon.cli.sources import settings_of
from andon.cli.terminal import Terminal
from andon.fleet.rules.digest import sent_line


@click.command()
@click.option(
    "--hub",
    required=True,
    metavar="URL",
    help="The hub to report to; several of one database: A,B.",
)
@store_option
@shared
def agent(hub: str) -> int:
    """Report this machine to a hub every 5 seconds, until Ctrl-C.

    The token of this node comes from ANDON_HUB_TOKEN the first time, in the line that `andon nodes
    add` prints, and is kept in the state folder. Readings and alerts are recorded here as well, and
    what the hub missed is sent when it is back. A machine that runs andon serve needs no agent:
    andon serve --hub URL.
    """
    from andon.app.servers.agent import report_to

    choices, over = chosen(), threading.Event()
    terminal = Terminal.of(choices)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    report_to(
        settings_of(choices),
        hub,
        lambda sent: terminal.remark(sent_line(sent)),
        over,
        lambda: load_settings(choices.flags()).settings,
    )
    return 0
