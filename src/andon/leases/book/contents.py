"""The content of the book's files, as far as it can be trusted.

A file's owner and times come from the kernel; its content comes from its owner.
"""

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from andon.errors import Invalid
from andon.host.files import lock, open_regular, read_regular, replace_file
from andon.host.processes.kin import container_members, group_members, pid_scope, read_kin
from andon.host.users import is_root, is_unknown, user_name
from andon.leases.book.files import BookFile
from andon.leases.rules.membership import believed, believed_in_containers
from andon.leases.rules.usage import NO_USAGE, RecentUsage, usage_from_json, usage_to_json
from andon.model import lease_wire, wire
from andon.model.lease import FURTHEST, BookEntry, Cordon, Kin, Lease, Owner, Ticket, Work
from andon.model.wire import dumps

T = TypeVar("T")
FOREIGN_UID = -2  # no uid here is below 0
COARSE_SECONDS = 1.0  # a file's time comes from a coarse clock, and may lag behind


def lease_in(found: BookFile) -> Lease | None:
    """Parses a lease; its owner and its start are the file's."""
    try:
        lease = None if found.text is None else lease_wire.lease_in_text(found.text)
    except Invalid:
        return None
    if lease is None or not _is_name_of(found, lease.id):
        return None
    return replace(lease, owner=_owned(lease.owner, found.uid), since=_since(lease, found))


def _since(lease: Lease, found: BookFile) -> float:
    """Returns when a lease began: as it says, within the times that the kernel has for its file."""
    since = max(lease.since, found.born or 0.0)
    return since if since <= found.changed + COARSE_SECONDS else max(0.0, found.changed)


def dated(lease: Lease | None, found: BookFile) -> Lease | None:
    """Returns the lease with its current end, which is the file's modification time."""
    if lease is None or lease.until is None:
        return lease
    return replace(lease, until=min(max(0.0, found.modified), FURTHEST))


def ticket_in(found: BookFile) -> Ticket | None:
    ticket = _read(found.text, lease_wire.ticket_from_json)
    if ticket is None or not _is_name_of(found, ticket.id):
        return None
    # Only the kernel's time counts; the time in the ticket could be anything.
    moved = found.changed - found.modified > COARSE_SECONDS
    requested_at = max(0.0, found.modified)
    owner = _owned(ticket.owner, found.uid)
    if is_unknown(found.uid):  # users whom this namespace cannot tell apart do not count as one
        owner = replace(owner, uid=FOREIGN_UID - ticket.owner.uid)
    return replace(ticket, owner=owner, since=found.changed, asked=requested_at, moved=moved)


def cordon_in(found: BookFile, owner: int) -> Cordon | None:
    """Parses a cordon; only root and the book's owner may make one, and only in their own name."""
    cordon = _read(found.text, lease_wire.cordon_from_json)
    if cordon is None or found.uid not in (0, owner) or found.name != cordon_name(cordon.uuid):
        return None
    return replace(cordon, by=user_name(found.uid), at=max(0.0, found.changed))


def entries_of(read: Sequence[tuple[BookFile, Lease | None]]) -> list[BookEntry]:
    """Returns the leases with what is left of their jobs, from one scan of all processes."""
    works = [work for found, lease in read if (work := _loose_work(found, lease))]
    members = group_members({work.group for work in works if work.group is not None})
    alone = read_kin(work.pid for work in works if work.group is None)
    named = {c for found, lease in read for c in _loose_containers(found, lease)}
    contained = container_members(named)
    return [_entry(found, lease, members, alone, contained) for found, lease in read]


def cordon_name(uuid: str) -> str:
    """A device's uuid as a file name; it may contain anything, so nothing in it is trusted."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_@") else "+" for c in uuid[:120])
    return f"c{plain}"


def _loose_work(found: BookFile, lease: Lease | None) -> Work | None:
    """Returns the work that may still be alive although its lease is no longer held."""
    if found.locked or lease is None:
        return None
    owner, scope = lease.owner, pid_scope()
    same = (owner.boot, owner.pid_namespace) == (scope.boot, scope.pid_namespace)
    return lease.work if same else None


def _loose_containers(found: BookFile, lease: Lease | None) -> tuple[str, ...]:
    """Returns the containers that may still run although their lease is no longer held."""
    if found.locked or lease is None or lease.owner.boot != pid_scope().boot:
        return ()
    return lease.containers


def _entry(
    found: BookFile,
    lease: Lease | None,
    members: Mapping[int, tuple[Kin, ...]],
    alone: Mapping[int, Kin],
    contained: Mapping[str, tuple[Kin, ...]],
) -> BookEntry:
    left: tuple[int, ...] = ()
    if (work := _loose_work(found, lease)) is not None:
        itself = (kin,) if (kin := alone.get(work.pid)) else ()
        left = believed(work, found.uid, members.get(work.group or 0, itself))
    if lease is not None and _loose_containers(found, lease):
        inside = believed_in_containers(lease, found.uid, contained)
        left = tuple(dict.fromkeys((*left, *inside)))
    return BookEntry(found.name, found.uid, user_name(found.uid), found.locked, lease, left)


def _is_name_of(found: BookFile, name: str) -> bool:
    """Whether the file's name begins with the id in its content: files are found by name."""
    return found.name.startswith(f"{name}-")


def _owned(owner: Owner, uid: int) -> Owner:
    """Returns the owner from the file system, not from the file."""
    return replace(owner, uid=uid, user=user_name(uid))


def _read(text: str | None, read: Callable[[wire.Json], T]) -> T | None:
    if text is None:
        return None
    try:
        return read(wire.loads(text, wire.NOTE, any_text=True))
    except Invalid:
        return None


# `usage.json` in the lease book: written by root's or the book owner's server, by no one else.

NAME, LOCK = "usage.json", "usage.lock"
LARGEST_BYTES = 1 << 20
PUBLIC_FILE = 0o644


def read_usage(book: Path) -> RecentUsage:
    """Returns the usage now; empty if the file is missing, damaged or not its owner's."""
    try:
        if not _is_rightful(book):
            return NO_USAGE
        found = usage_from_json(wire.loads(read_regular(book / NAME, LARGEST_BYTES), wire.ANSWER))
    except (OSError, ValueError, Invalid):
        return NO_USAGE
    return found.decayed(time.time())


def may_write(book: Path) -> bool:
    try:
        return is_root(os.getuid()) or os.getuid() == book.stat().st_uid
    except OSError:
        return False


def claim_writing(book: Path) -> int | None:
    """Returns a descriptor whose lock makes this process the only one that counts usage; None
    for other processes."""
    if not may_write(book):
        return None
    descriptor = open_regular(book / LOCK, os.O_RDWR | os.O_CREAT, PUBLIC_FILE)
    try:
        lock(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def write_usage(book: Path, usage: RecentUsage) -> None:
    text = dumps(usage_to_json(usage)) + "\n"
    replace_file(book / NAME, text.encode(), PUBLIC_FILE)


def _is_rightful(book: Path) -> bool:
    found, owner = (book / NAME).lstat(), book.stat()
    mine = found.st_uid in (0, owner.st_uid)
    return mine and stat.S_ISREG(found.st_mode) and not found.st_mode & 0o022
