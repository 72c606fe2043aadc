"""`andon ps`: the processes on the devices, and their users."""

import time
from pathlib import Path

import click

from andon.cli.options import chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.entries import unreal
from andon.cli.show.process_rows import (
    PROCESSES,
    SORTS,
    HostUsage,
    ProcessFilter,
    ProcessRow,
    between,
    local_pids,
    uses,
    uses_to_json,
)
from andon.cli.show.process_table import (
    NO_PROCESS,
    Branch,
    forest,
    render_by_device,
    render_tree,
    render_uses,
)
from andon.cli.show.render import paragraph, render_status
from andon.cli.sources import exit_code, node_of, settings_of
from andon.cli.terminal import Terminal
from andon.explain.evidence.blame import last_used
from andon.host.machine_id import boot_id
from andon.host.processes.facts import ProcessTable
from andon.model.device import COMMANDS_MISSING, NAMES_MISSING, Process, Snapshot
from andon.model.naming import narrowed, unread_text
from andon.units import counted


def host_use(pids: set[int], seconds: float, root: str) -> dict[int, HostUsage]:
    """CPU and host memory of some processes, from two readings this far apart."""
    table = ProcessTable(Path(root))
    first, began = table.usage(pids), time.monotonic()
    if pids:
        time.sleep(seconds)
    return between(first, table.usage(pids), time.monotonic() - began)


MISSING = {"processes": "processes", NAMES_MISSING: "processes", COMMANDS_MISSING: "command lines"}
SAMPLE_SECONDS = 0.2  # two readings closer than this measure the clock's resolution


@click.command()
@with_devices()
@click.option("--user", "-u", metavar="USER", help="Only this user's processes.")
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
@fresh_option
@elsewhere
@shared
def ps(
    devices: list[str],
    user: str | None,
    container: str | None,
    job: str | None,
    sort: str,
    tree: bool,
    as_json: bool,
    as_csv: bool,
) -> int:
    """Print the processes that use the devices.

    On a terminal they are grouped by GPU, each with a sum; in a pipe the largest is first. TYPE is
    C for compute, G for graphics. CPU is the host's, where 100 % is one core. Memory not accounted
    for by any process has its own row: a crashed process, another container, or the driver.
    """
    if as_json + as_csv + tree > 1:
        raise click.UsageError("--json, --csv and --tree cannot be combined")
    node = node_of(chosen())
    if node.url is not None and tree:
        raise click.UsageError("--url and --tree cannot be combined: run andon ps there")
    snapshot = node.live.latest(expensive_fields=True)
    root = settings_of(chosen()).root
    # Another machine's processes are not in this machine's /proc.
    pids = local_pids(snapshot) if node.url is None or _is_this_boot(snapshot, root) else set()
    hosts = host_use(pids, SAMPLE_SECONDS, root)
    shown = narrowed(snapshot, devices)
    ids = _container_ids(pids & local_pids(shown), root) if container else {}
    wanted = ProcessFilter(user, container, job, ids)
    found = uses(shown, hosts, wanted, sort)
    terminal = Terminal.of(chosen())
    if as_json:
        terminal.show_json(uses_to_json(shown, found))
    elif as_csv:
        terminal.show_data(PROCESSES.text((shown, one) for one in found))
    elif not snapshot.devices or (not found and exit_code(shown)):
        terminal.print(*render_status(shown, terminal.width, time.time()))
    elif tree:
        branches, ancestors = _family(found, local_pids(shown), root)
        mark = unreal(shown)
        terminal.print(*render_tree(found, branches, ancestors, terminal.width, mark))
        _print_what_is_missing(shown, terminal)
    else:
        render = render_by_device if terminal.live else render_uses
        none = _no_process(shown, wanted)
        terminal.print(*render(found, terminal.width, unreal(shown), none))
        _print_what_is_missing(shown, terminal)
    return exit_code(shown)


def _is_this_boot(snapshot: Snapshot, root: str) -> bool:
    """Whether a server's snapshot is of this machine."""
    return snapshot.boot is not None and snapshot.boot == boot_id(Path(root))


def _no_process(snapshot: Snapshot, wanted: ProcessFilter) -> str:
    """Returns the sentence to print if no row is shown; it may mention that other users' processes
    exist."""
    if wanted.everybody:
        return NO_PROCESS
    others = len({p.pid for status in snapshot.devices for p in status.processes})
    rest = f"; {counted(others, 'other')} use{'s' * (others == 1)} one" if others else ""
    return f"no process {wanted.text()} is using a GPU{rest}"


def _container_ids(pids: set[int], root: str) -> dict[int, str]:
    """Returns the full container ids: a container is shown by name and often selected by its id."""
    found = ProcessTable(Path(root)).belongings(pids)
    return {pid: where.container.id for pid, where in found.items() if where.container}


def _family(
    found: list[ProcessRow], pids: set[int], root: str
) -> tuple[list[Branch], dict[int, Process]]:
    """Returns the tree of these processes, and the ancestors in it that use no device."""
    table = ProcessTable(Path(root))
    holders = [use.process.pid for use in found if use.process]
    branches = forest(table.lineage(pids.intersection(holders)), holders)
    others = [Process(branch.pid) for branch in branches if branch.pid not in holders]
    return branches, {process.pid: process for process in table.attribute(others)}


def _print_what_is_missing(snapshot: Snapshot, terminal: Terminal) -> None:
    """Print why the process list, or names in it, are missing."""
    missing = (status.missing.items() for status in snapshot.devices)
    found = [f"– {MISSING[key]}: {why}" for each in missing for key, why in each if key in MISSING]
    for text in dict.fromkeys(found):
        terminal.print(*paragraph(text, terminal.width, "dim"))
    if (
        unread := unread_text(snapshot.devices, "its processes are", "their processes are")
    ) is not None:
        for text in (f"{unread} not listed", *last_used(snapshot.devices)):
            terminal.print(*paragraph(text, terminal.width, "yellow"))
