"""`andon ps`: the processes on the devices, and their users."""

import time
from pathlib import Path

import click

from andon.cli import process_counters, snapshot_source
from andon.cli.commands.watch.status import as_json_text, exit_code
from andon.cli.options import chosen, shared
from andon.cli.show.entries import unreal
from andon.cli.show.process_rows import (
    SORTS,
    ProcessFilter,
    ProcessRow,
    render_tree,
    render_uses,
    uses,
    uses_to_csv,
    uses_to_json,
)
from andon.cli.show.render import paragraph, render_status
from andon.cli.show.text import say
from andon.cli.show.tree import Branch, forest
from andon.cli.snapshot_source import chosen_uuids, only, split_devices
from andon.cli.terminal import Terminal
from andon.core.sampling.roster import unlisted
from andon.model.device import NAMES_MISSING, Process, Snapshot

SAMPLE_SECONDS = 0.2  # two readings closer than this measure the clock's resolution


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
@click.option("--container", "-c", metavar="NAME", help="Only in this container: name or id.")
@click.option("--job", "-j", metavar="JOB", help="Only of this job: 42, slurm:42.0, a unit's name.")
@click.option(
    "--sort",
    "-s",
    type=click.Choice(list(SORTS)),
    default="memory",
    show_default=True,
    help="Largest first; pid is ascending.",
)
@click.option("--tree", "-t", is_flag=True, help="Show processes under those that started them.")
@click.option("--json", "as_json", is_flag=True, help="Print andon.processes/1: UTC, bytes.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per process.")
@shared
def ps(
    user: str | None,
    names: tuple[str, ...],
    container: str | None,
    job: str | None,
    sort: str,
    tree: bool,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Print the processes that use the devices, the largest first.

    C is compute, G is graphics. CPU is the host's, where 100 % is one core. Memory not accounted
    for by any process has its own row: a crashed process, another container, or the driver.
    """
    if as_json + as_csv + tree > 1:
        raise click.UsageError("--json, --csv and --tree cannot be combined")
    snapshot = snapshot_source.take_snapshot(chosen(), watched=True)
    root = snapshot_source.settings_of(chosen()).root
    hosts = process_counters.host_use(_pids(snapshot), SAMPLE_SECONDS, root)
    devices = split_devices(names)
    shown = only(snapshot, chosen_uuids(snapshot, devices)) if devices else snapshot
    ids = _container_ids(_pids(shown), root) if container else {}
    found = uses(shown, hosts, ProcessFilter(user, container, job, ids), sort)
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show(as_json_text(uses_to_json(shown, found), terminal.live))
    elif as_csv:
        terminal.show(uses_to_csv(shown, found))
    elif not snapshot.devices:
        terminal.show(render_status(snapshot, terminal.width, terminal.color, time.time()))
    else:
        width, color, mark = terminal.width, terminal.color, unreal(shown)
        if tree:
            branches, ancestors = _family(found, _pids(shown), root)
            text = render_tree(found, branches, ancestors, width, color, mark)
        else:
            text = render_uses(found, width, color, mark)
        terminal.show(text)
        _say_what_is_missing(shown, terminal)
    return exit_code(shown)


def _pids(snapshot: Snapshot) -> set[int]:
    """The processes in this system's /proc: not simulated ones, nor those without a name."""
    real = [s for s in snapshot.devices if s.device.vendor != "sim"]
    return {process.pid for status in real for process in status.processes if process.name}


def _container_ids(pids: set[int], root: str) -> dict[int, str]:
    """The full ids, because a container is shown by name and often named by its id."""
    from andon.host.processes import ProcessTable

    found = ProcessTable(Path(root)).belongings(pids)
    return {pid: where.container.id for pid, where in found.items() if where.container}


def _family(
    found: list[ProcessRow], pids: set[int], root: str
) -> tuple[list[Branch], dict[int, Process]]:
    """The tree of these processes, and those in it that use no device."""
    from andon.host.processes import ProcessTable

    table = ProcessTable(Path(root))
    holders = [use.process.pid for use in found if use.process]
    branches = forest(table.lineage(pids.intersection(holders)), holders)
    others = [Process(branch.pid) for branch in branches if branch.pid not in holders]
    return branches, {process.pid: process for process in table.attribute(others)}


def _say_what_is_missing(snapshot: Snapshot, terminal: Terminal) -> None:
    """Print why the process list, or names in it, are missing."""
    reasons = [s.missing.get(key) for s in snapshot.devices for key in ("processes", NAMES_MISSING)]
    for reason in dict.fromkeys(reason for reason in reasons if reason):
        for line in paragraph(f"– processes: {reason}", terminal.width, "dim"):
            terminal.say(line)
    if (silent := unlisted(snapshot.devices)) is not None:
        terminal.say(say(silent, "yellow"))
