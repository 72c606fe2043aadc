"""`andon leases` and `andon release`: lists leases, and releases one's own."""

import sys
import time
from collections.abc import Mapping, Sequence

import click
from msgspec.structs import replace

from andon.cli.commands.completing import complete_lease
from andon.cli.options import at_server, chosen, elsewhere, fresh_option, shared, with_devices
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, known, styled
from andon.cli.show.waiting import queue_line
from andon.cli.sources import node_of
from andon.cli.terminal import Choices, Terminal, ask, notice, report
from andon.errors import AndonError, Gone, Invalid
from andon.leases.own import gpus_of, own_leases
from andon.leases.rules.rows import EMPTY, NONE
from andon.model.codec import document
from andon.model.lease import LONGEST_ID, Lease, LeaseKind, LeaseState
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.lease_wire import MOST_NOTE
from andon.model.naming import may_mean, title
from andon.units import human_bytes, human_seconds

MOST_USERS = 8  # whose hours are shown


@click.command()
@with_devices()
@click.option("--json", "as_json", is_flag=True, help="Print andon.leases/1: UTC, bytes.")
@click.option("--mine", is_flag=True, help="Only your own.")
@fresh_option
@elsewhere
@shared
def leases(devices: list[str], as_json: bool, mine: bool) -> int:
    """Print every lease: who holds what, since when, until when, and what is actually used.

    An orphaned lease has lost its `andon run`, but its job is still running; the GPUs stay
    held until it ends.
    """
    _, everyone, remarks = node_of(chosen()).leases.listing(mine)
    terminal = Terminal.of(chosen())
    found = on_devices(everyone, devices)
    if as_json:
        terminal.show_json(document(found))
        return 0
    if not found.leases:
        terminal.print(styled(_no_lease(found, devices), "dim"))
    else:
        labels = {one.uuid: one.label for one in found.devices}
        columns = lease_columns(found.at, labels)
        terminal.print(*draw(columns, [TableRow(row) for row in found.leases], terminal.width))
    for place in found.waiting:
        terminal.print(styled(queue_line(place, found.at), "dim"))
    if found.usage:
        hours = ", ".join(f"{row.user} {row.gpu_hours:g}" for row in found.usage[:MOST_USERS])
        terminal.print(styled(f"recent GPU hours, which affect the queue order: {hours}", "dim"))
    for remark in remarks:
        terminal.print(styled(remark, "yellow"))
    return 0


@click.command()
@click.argument("lease_ids", metavar="[ID]…", nargs=-1, shell_complete=complete_lease)
@click.option("--note", "-m", default="", metavar="TEXT", help="Reason, shown to the holder.")
@at_server
@shared
def release(lease_ids: tuple[str, ...], note: str) -> int:
    """Release leases: their holders are asked to stop, along with their commands.

    The holder's terminal shows who released the lease, and the note. Without an ID it shows your
    only lease and asks, on a terminal; in a script it releases nothing.
    """
    choices = chosen()
    if len(note) > MOST_NOTE:
        raise Invalid(f"the note has {len(note)} characters", hint=f"at most {MOST_NOTE}")
    if not lease_ids:
        only = only_lease(choices, "release")
        if not sys.stdin.isatty():
            raise _which([only], "release")
        if not _confirmed(only):
            notice("nothing was released", choices)
            return 0
        lease_ids = (only.id,)
    codes = [_released(choices, name, note) for name in lease_ids]
    return next(filter(None, codes), 0)


def _released(choices: Choices, name: str, note: str) -> int:
    """Releases one lease and returns its exit code; a failure does not stop the others."""
    try:
        ended = node_of(choices).leases.release(name, note)
    except AndonError as error:
        report(error, choices)
        return error.exit_code
    Terminal.of(choices).print(styled(f"released lease {ended}"))
    return 0


def only_lease(choices: Choices, command: str) -> Lease:
    """Returns the user's only lease, for a command that was given no id."""
    if node_of(choices).url is not None:
        raise Invalid("which lease?", hint="to list them: andon leases")

    held = own_leases()
    if not held:
        raise Gone("you hold no lease", hint="andon leases lists everyone's")
    if len(held) > 1:
        raise _which(held, command)
    return held[0]


def _which(held: list[Lease], command: str) -> Invalid:

    typed = "; ".join(f"andon {command} {one.id} ({gpus_of(one)})" for one in held)
    return Invalid("which lease?", hint=f"yours: {typed}")


def _confirmed(lease: Lease) -> bool:

    text = f"your only lease is {lease.id}: {gpus_of(lease)}"
    text += f", held {human_seconds(max(0.0, time.time() - lease.since))}"
    text += f", {lease.command}" * bool(lease.command)
    notice(text)
    then = "its command is ended" if lease.kind is LeaseKind.COMMAND else "what runs there goes on"
    return ask(f"release it? {then} [y/N] ") == "y"


def on_devices(found: LeaseList, names: Sequence[str]) -> LeaseList:
    """The leases on the named devices; one that cannot be read may be on any."""
    if not names:
        return found
    uuids: set[str] = set()
    for name in names:
        matching = {one.uuid for one in found.devices if may_mean(name, one.uuid, one.label)}
        if not matching:
            known = ", ".join(one.label for one in found.devices) or "none"
            raise Gone(f"there is no device {name[:40]!r}", hint=f"devices here: {known}")
        uuids |= matching
    rows = tuple(
        row
        for row in found.leases
        if not row.devices or uuids.intersection(share.uuid for share in row.devices)
    )
    return replace(found, leases=rows)


def _no_lease(found: LeaseList, devices: Sequence[str]) -> str:
    if devices:
        return f"no lease on {title(', '.join(devices))}"
    if found.note == EMPTY and chosen().url is not None:
        return NONE  # what to type would take one here
    return found.note or "you have no leases"


def lease_columns(at: float, labels: Mapping[str, str]) -> tuple[TableColumn[LeaseRow], ...]:
    return (
        TableColumn("LEASE", _id, lead=True),
        TableColumn("USER", lambda row: styled(row.holder), elastic=6),
        TableColumn("GPU", lambda row: _devices(row, labels), right=True),
        TableColumn(
            "SINCE",
            lambda row: known(row.since, lambda since: human_seconds(max(0.0, at - since))),
            rank=1,
            right=True,
        ),
        TableColumn("UNTIL", _until, rank=1),
        TableColumn("USED", _memory, rank=2, right=True),
        TableColumn(
            "UTIL",
            lambda row: known(row.utilization_percent, "{:.0f} %".format),
            rank=2,
            right=True,
        ),
        TableColumn("COMMAND", _command, rank=3, elastic=12),
    )


def _id(row: LeaseRow) -> Text:
    """Returns the id, cut: a server's id must not take the other columns' space."""
    name = row.id or "?"
    return styled(name if len(name) <= LONGEST_ID else f"{name[: LONGEST_ID - 1]}…")


def _devices(row: LeaseRow, labels: Mapping[str, str]) -> Text:
    if row.state is LeaseState.UNREADABLE:
        return styled("unreadable", "red")
    return styled(",".join(labels.get(share.uuid) or str(share.index) for share in row.devices))


def _until(row: LeaseRow) -> Text:
    if row.state is LeaseState.ORPHANED:
        return styled("orphaned", "yellow")
    return known(row.until, lambda until: time.strftime("%H:%M", time.localtime(until)))


def _memory(row: LeaseRow) -> Text:
    """Returns the used and promised memory; marked if a lease uses more than was promised."""
    used, most = human_bytes(row.used_bytes), row.promised_bytes
    if most is None:
        return styled(used)
    over = row.used_bytes > most
    return styled(f"{used} of {human_bytes(most)}") + styled(" over" if over else "", "bold red")


def _command(row: LeaseRow) -> Text:
    mark = styled("SIMULATED " if row.simulated else "", "reverse")
    return mark + known(row.command)
