"""`andon ps`: the processes on the devices, and whose they are."""

import time

import click

from andon.cli import looking
from andon.cli.entries import is_simulated
from andon.cli.looking import chosen_uuids, only, split_devices
from andon.cli.options import chosen, shared
from andon.cli.render import paragraph, render_status
from andon.cli.status import as_json_text, exit_code
from andon.cli.terminal import Terminal
from andon.cli.uses import SORTS, render_uses, uses, uses_to_csv, uses_to_json
from andon.model.device import Snapshot

LOOK_SECONDS = 0.2  # two looks closer than this measure the clock's grain


@click.command()
@click.option("--user", "-u", metavar="USER", help="Only this user's processes.")
@click.option(
    "--device",
    "-d",
    "names",
    multiple=True,
    metavar="D,…",
    help="Only these devices: index, 3:0, UUID or its beginning.",
)
@click.option(
    "--sort",
    "-s",
    type=click.Choice(list(SORTS)),
    default="memory",
    show_default=True,
    help="Largest first; pid is ascending.",
)
@click.option("--json", "as_json", is_flag=True, help="Print andon.processes/1: UTC, bytes.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per process.")
@shared
def ps(user: str | None, names: tuple[str, ...], sort: str, as_json: bool, as_csv: bool) -> int:
    """Print the processes that use the devices, the largest first.

    C computes, G draws. CPU is the host's, where 100 % is one core. Memory that no process
    explains has a row of its own: a process that died badly, another container, or the driver.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    snapshot = looking.look(chosen(), watched=True)
    root = looking.settings_of(chosen()).root
    hosts = looking.host_use(_pids(snapshot), LOOK_SECONDS, root)
    wanted = split_devices(names)
    shown = only(snapshot, chosen_uuids(snapshot, wanted)) if wanted else snapshot
    found = uses(shown, hosts, user, sort)
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(uses_to_json(shown, found), terminal.live))
    elif as_csv:
        terminal.show(uses_to_csv(shown, found))
    elif not snapshot.devices:
        terminal.show(render_status(snapshot, terminal.width, terminal.color, time.time()))
    else:
        terminal.show(render_uses(found, terminal.width, terminal.color, is_simulated(shown)))
        _say_what_is_missing(shown, terminal)
    return exit_code(shown)


def _pids(snapshot: Snapshot) -> set[int]:
    return {process.pid for status in snapshot.devices for process in status.processes}


def _say_what_is_missing(snapshot: Snapshot, terminal: Terminal) -> None:
    reasons = {s.missing["processes"]: None for s in snapshot.devices if "processes" in s.missing}
    for reason in reasons:
        for line in paragraph(f"– processes: {reason}", terminal.width, "dim"):
            terminal.say(line)
