"""`andon top`: the devices and who uses them, live and interactive."""

import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from andon.cli.options import chosen, duration, elsewhere, shared, with_devices
from andon.cli.screen import in_color
from andon.cli.sources import node_of, settings_of
from andon.cli.terminal import Choices
from andon.errors import Invalid, Unavailable
from andon.model.codec import read_document
from andon.tui.opening import run
from andon.tui.remembered import remembered
from andon.tui.scene import SORT_NAMES
from andon.tui.state import TopState

if TYPE_CHECKING:
    from andon.fleet.rules.states import NodeList

LEAST_INTERVAL, MOST_INTERVAL = 0.1, 3600.0


@click.command()
@with_devices()
@click.option("--user", "-u", metavar="USER", help="Only this user's processes.")
@click.option(
    "--sort",
    "-s",
    type=click.Choice(SORT_NAMES),
    metavar="COLUMN",
    help=f"Sort processes by: {', '.join(SORT_NAMES)}.",
)
@click.option(
    "--interval",
    "-i",
    type=duration,
    metavar="SECONDS",
    help="Time between samples: 2, 500ms; else as last time, or sampling.interval.",
)
@click.option("--readonly", is_flag=True, help="Disable the key that ends a process.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Use only ASCII characters.")
@elsewhere
@shared
def top(
    devices: list[str],
    user: str | None,
    sort: str | None,
    interval: float | None,
    readonly: bool,
    ascii_only: bool,
) -> int:
    """Show devices, graphs and processes, live; h lists the keys, q quits.

    With --url of a hub every node has a line; enter opens one, and q comes back.

    Devices come from the andon server of this machine if one runs, so that many viewers cost one
    sampler; else this node is sampled directly. The sort order, columns, graphs and interval are
    remembered. --replay plays a recording: space pauses, comma and full stop step.
    """
    choices = chosen()
    _refuse_what_cannot_work(interval)
    color, ascii_only = in_color(choices.color or "auto", sys.stdout), ascii_only or _is_ascii()

    def one_node() -> int:
        settings, node = settings_of(choices), node_of(choices)
        saved = state = remembered(TopState(interval_seconds=settings.interval_seconds))
        processes = replace(state.processes, user=user)
        if sort is not None:
            processes = replace(processes, sort=sort, reverse=False)
        state = replace(
            state,
            processes=processes,
            interval_seconds=interval or choices.interval_seconds or state.interval_seconds,
            can_end=not readonly and node.url is None and not node.recording,
            replayed=node.recording,
        )
        return run(choices, state, saved, devices, color, ascii_only)

    hub = _hub(choices)
    if hub is None:
        return one_node()
    from andon.tui.fleet import over_fleet

    def opened(name: str) -> int:
        choices.node_name, choices.node = name, None
        return one_node()

    return over_fleet(hub, opened, color, ascii_only)


def _refuse_what_cannot_work(interval: float | None) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Invalid("top needs a terminal", hint="in a pipe: andon watch, or andon status")
    if interval is not None and not LEAST_INTERVAL <= interval <= MOST_INTERVAL:
        raise Invalid(f"{interval:g} s is not an interval", hint="use 100ms to 1h")
    if sys.platform == "win32":
        raise Unavailable("andon top runs on Linux and macOS", hint="use andon watch")
    if find_spec("textual") is None:
        raise Unavailable(
            "andon top needs the package textual, which is not installed",
            hint="pip install 'andon[top]'; until then: andon watch",
        )


def _hub(choices: Choices) -> Callable[[], "NodeList"] | None:
    """Returns the function that reads the hub's nodes; None if one node, or no hub, is meant."""
    if choices.url is None or "://" not in choices.url or choices.node_name is not None:
        return None
    from andon.fleet.rules.states import NodeList
    from andon.node.server import connect

    server = connect(choices.url, choices.token_file, lambda _: None)
    listed = partial(server.get_as, "/api/nodes", partial(read_document, NodeList))
    return listed if listed().hub else None


def _is_ascii() -> bool:
    """Whether the terminal's encoding has no braille."""
    try:
        "⣿━…".encode(sys.stdout.encoding or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return True
    return False
