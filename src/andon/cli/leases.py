"""`andon leases` and `andon release`: who holds what, and how one's own is given back."""

import os
import signal
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from andon.cli.asking import surveyor_of
from andon.cli.options import chosen, shared
from andon.cli.sources import sampling_ahead
from andon.cli.status import as_json_text
from andon.cli.table import Column, Row, draw
from andon.cli.terminal import Choices, Terminal
from andon.cli.text import UNKNOWN, Text, say
from andon.errors import Conflict, Denied, Gone
from andon.model.device import Snapshot
from andon.model.work import Claim, Standing, Ticket
from andon.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from andon.core.rooms import Room

RELEASE_SECONDS = 12.0
GLANCE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Sighting:
    """The devices, the book and the line, seen together."""

    snapshot: Snapshot
    rooms: "tuple[Room, ...]"
    claims: tuple[Claim, ...]
    line: tuple[Ticket, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One lease as a row shows it."""

    claim: Claim
    used_bytes: int
    utilization_percent: float | None
    at: float


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print andon.leases/1: UTC, bytes.")
@click.option("--mine", is_flag=True, help="Only your own.")
@shared
def leases(as_json: bool, mine: bool) -> int:
    """Print every lease: who holds what, since when, until when, and what is really used.

    An orphaned lease has lost its holder while its work lives on; its devices are withheld
    until that ends.
    """
    seen = look_at_leases(chosen())
    lines = _lines(seen, mine)
    terminal = Terminal.of(chosen())
    if as_json:
        value = {
            "schema": "andon.leases/1",
            "at": seen.snapshot.at,
            "leases": [_as_json(line) for line in lines],
            "waiting": [_ticket_json(ticket) for ticket in seen.line],
        }
        terminal.show(as_json_text(value, terminal.live))
        return 0
    if not lines:
        terminal.say(say("nobody holds a lease", "dim"))
    else:
        for text in draw(COLUMNS, [Row(line) for line in lines], terminal.width):
            terminal.say(text)
    for place, ticket in enumerate(seen.line, 1):
        waited = human_seconds(max(0.0, seen.snapshot.at - ticket.since))
        count = ticket.need.least
        words = f"waiting {place}: {ticket.owner.user}, {count} GPU{'s' * (count != 1)}, {waited}"
        terminal.say(say(words, "dim"))
    return 0


@click.command()
@click.argument("lease_ids", metavar="ID…", nargs=-1, required=True)
@shared
def release(lease_ids: tuple[str, ...]) -> int:
    """Give leases of yours back: their holders are asked to end, and with them their commands."""
    from andon.leases.book import Book

    book = Book(make=False)
    for name in lease_ids:
        _, found, held = book.find(name)
        if os.getuid() not in (0, found.uid):
            raise Denied(
                f"lease {held.id} is {held.owner.user}'s", hint=f"ask {held.owner.user}, or root"
            )
        _ask(held)
        _wait_for(book, held)
        Terminal.of(chosen()).say(say(f"lease {held.id} was given back"))
    return 0


def _ask(held: Any) -> None:
    """Signal the holder and no later process of its number."""
    from andon.host.kin import pid_namespace, started_ticks

    owner = held.owner
    if owner.pid_namespace != pid_namespace():
        where = f"container {owner.container[:12]}" if owner.container else "another container"
        raise Conflict(f"lease {held.id} is held in {where}", hint="release it there")
    try:
        descriptor = os.pidfd_open(owner.pid)
    except OSError as exc:
        raise Gone(f"the holder of lease {held.id} (pid {owner.pid}) is gone") from exc
    try:
        if started_ticks(owner.pid) != owner.started_ticks:
            raise Gone(f"the holder of lease {held.id} (pid {owner.pid}) is gone")
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except PermissionError as exc:
        raise Denied(f"pid {owner.pid} may not be signalled") from exc
    finally:
        os.close(descriptor)


def _wait_for(book: Any, held: Any) -> None:
    """Until it is out of the book; asked once more, the holder kills what does not end."""
    end = time.monotonic() + RELEASE_SECONDS
    insisted = False
    while any(entry.locked and entry.lease == held for entry in book.entries()):
        if time.monotonic() >= end and not insisted:
            insisted, end = True, time.monotonic() + RELEASE_SECONDS
            _ask(held)
        elif time.monotonic() >= end:
            raise Conflict(f"lease {held.id} is still held", hint=f"kill -9 {held.owner.pid}")
        time.sleep(GLANCE_SECONDS)


def look_at_leases(choices: Choices) -> "Sighting":
    from andon.core.queueing import in_order
    from andon.engine.survey import Pages
    from andon.leases.book import Book

    with sampling_ahead(choices) as sampler:
        surveyor = surveyor_of(choices, sampler)
        sight, pages = surveyor.see(), Pages.of(Book(make=False))
        rooms = surveyor.rooms(sight, pages)
        claims = surveyor.claims(sight, pages)
    line = in_order(pages.waiting, time.time())
    return Sighting(sight.snapshot, rooms, claims, tuple(line))


def _lines(seen: "Sighting", mine: bool) -> list[Line]:
    used: dict[str, int] = {}
    busy: dict[str, list[int]] = {}
    for room in seen.rooms:
        for tenant in room.tenants:
            used[tenant.claim.file] = used.get(tenant.claim.file, 0) + tenant.used_bytes
            if room.utilization_percent is not None:
                busy.setdefault(tenant.claim.file, []).append(room.utilization_percent)
    return [
        Line(
            claim,
            used.get(claim.file, 0),
            sum(found) / len(found) if (found := busy.get(claim.file)) else None,
            seen.snapshot.at,
        )
        for claim in seen.claims
        if not mine or claim.uid == os.getuid()
    ]


def _devices(line: Line) -> Text:
    lease = line.claim.lease
    if lease is None:
        return say("unreadable", "red")
    return say(",".join(str(share.index) for share in lease.shares))


def _until(line: Line) -> Text:
    lease = line.claim.lease
    if line.claim.standing is Standing.ORPHANED:
        return say("orphaned", "yellow")
    if lease is None or lease.until is None:
        return say(UNKNOWN, "dim")
    return say(time.strftime("%H:%M", time.localtime(lease.until)))


def _promised(line: Line) -> int | None:
    sizes = [share.memory_bytes for share in (line.claim.lease.shares if line.claim.lease else ())]
    return sum(size for size in sizes if size is not None) if any(sizes) else None


def _memory(line: Line) -> Text:
    promised = _promised(line)
    used = human_bytes(line.used_bytes)
    return say(f"{used} of {human_bytes(promised)}" if promised else used)


def _busy(line: Line) -> Text:
    busy = line.utilization_percent
    return say(UNKNOWN, "dim") if busy is None else say(f"{busy:.0f} %")


COLUMNS: tuple[Column[Line], ...] = (
    Column("LEASE", lambda line: say(line.claim.lease.id if line.claim.lease else "?"), lead=True),
    Column("USER", lambda line: say(line.claim.user), elastic=6),
    Column("GPU", _devices, right=True),
    Column("SINCE", lambda line: _since(line), rank=1, right=True),
    Column("UNTIL", _until, rank=1),
    Column("USED", _memory, rank=2, right=True),
    Column("UTIL", _busy, rank=2, right=True),
    Column("COMMAND", lambda line: _command(line), rank=3, elastic=12),
)


def _since(line: Line) -> Text:
    if line.claim.lease is None:
        return say(UNKNOWN, "dim")
    return say(human_seconds(max(0.0, line.at - line.claim.lease.since)))


def _command(line: Line) -> Text:
    if line.claim.lease is None:
        return say(line.claim.file, "dim")
    mark = "SIMULATED " if line.claim.lease.simulated else ""
    return say(mark, "reverse") + say(line.claim.lease.command)


def _ticket_json(ticket: Ticket) -> dict[str, Any]:
    return {
        "user": ticket.owner.user,
        "gpus": ticket.need.least,
        "since": ticket.since,
        "priority": ticket.priority,
    }


def _as_json(line: Line) -> dict[str, Any]:
    lease = line.claim.lease
    facts = {} if lease is None else asdict(lease)
    return {
        "id": None,
        **facts,
        "standing": str(line.claim.standing),
        "user": line.claim.user,
        "uid": line.claim.uid,
        "used_bytes": line.used_bytes,
        "promised_bytes": _promised(line),
        "utilization_percent": line.utilization_percent,
    }
