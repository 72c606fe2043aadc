"""Ends and extends leases, the same way for the command line and for the server."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Gone
from andon.host.processes.handles import is_stopped
from andon.host.processes.kin import pid_scope
from andon.host.users import user_name
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import LockTable, described, open_holder, strangers
from andon.leases.book.places import LEASES
from andon.leases.book.release_notes import left_note
from andon.leases.own import this_requester
from andon.leases.policy_file import limits_for, read_policy
from andon.leases.rules.policy import Policy
from andon.leases.rules.rights import LeaseRequester, barred
from andon.leases.rules.validity import Locker
from andon.model.lease import Claim, Lease, LeaseState
from andon.model.lease_wire import release_note
from andon.units import human_seconds

RELEASE_SECONDS = 12.0
POLL_SECONDS = 0.05

Check = Callable[[Lease], None]


def no_check(lease: Lease) -> None:
    """Accepts every request: on the local machine the uid is proof enough."""


def release(
    book: Book,
    name: str,
    check: Check = no_check,
    timeout_seconds: float = RELEASE_SECONDS,
    insist: bool = True,
    note: str = "",
    by: str | None = None,
    for_uid: int | None = None,
) -> Lease:
    """Asks a lease's holder to end it, and waits until it has left the book.

    With `insist` the holder is asked a second time, and then kills what is still running. It reads
    who asked (`by`, else this process's user) and the note. A server does it for a user: both must
    be allowed to.
    """
    folder, claim, lease = _find(book, name, check, for_uid)
    if left := strangers(folder.parent, claim.file, lease, claim.uid, LockTable()):
        return _remove(book, folder, claim, left)
    written = release_note(by or user_name(os.getuid()), note)
    with left_note(folder, claim.file, written):
        for _ in range(2 if insist else 1):
            _signal_holder(lease, folder / claim.file, claim.uid)
            if _is_released(book, claim.file, timeout_seconds):
                return lease
    raise _still_held(lease, insist)


def extend(
    book: Book,
    name: str,
    seconds: float,
    check: Check = no_check,
    for_uid: int | None = None,
    policy: Callable[[], Policy] = read_policy,
) -> Lease:
    """Moves the end of a lease to `seconds` from now; returns the new lease."""
    folder, claim, lease = _find(book, name, check, for_uid)
    if lease.until is None:
        raise Conflict(
            f"lease {lease.id} has no end time to change", hint="it ends with its command"
        )
    until = time.time() + seconds

    def stamp(at: float) -> None:
        os.utime(folder / claim.file, (at, at), follow_symlinks=False)

    try:
        move_end(book, lease, claim.uid, until, stamp, policy)
    except FileNotFoundError as exc:
        raise Gone(f"lease {lease.id} has ended", hint="request a new one") from exc
    except PermissionError as exc:
        raise Denied(
            f"not allowed to change lease {lease.id}", hint=f"ask {claim.user}, or root"
        ) from exc
    if not _is_held(book, claim.file):
        raise Gone(f"lease {lease.id} has ended", hint="request a new one")
    return replace(lease, until=until)


def move_end(
    book: Book,
    lease: Lease,
    uid: int,
    until: float,
    stamp: Callable[[float], None],
    policy: Callable[[], Policy] = read_policy,
) -> None:
    """Moves the end of a lease by `stamp`. Raises Denied if root's policy allows the user no lease
    that long, from its start, and Conflict if others have reserved its devices for a time before
    its new end."""
    at = time.time()
    limits_for(policy(), uid).check_extension(max(0.0, at - lease.since), until - at)
    _refuse_reserved(book, lease, uid, until)
    stamp(until)
    try:
        _refuse_reserved(book, lease, uid, until)  # made meanwhile: nothing is locked
    except Conflict:
        if lease.until is not None:
            stamp(lease.until)
        raise


def _refuse_reserved(book: Book, lease: Lease, uid: int, until: float) -> None:
    if not (reserved := book.reservations()):
        return
    from andon.leases.rules.reservations import first_after

    at, uuids = time.time(), [share.uuid for share in lease.shares]
    if (ahead := first_after(reserved, uid, uuids, at, until)) is not None:
        most = human_seconds(max(0.0, ahead.begins - at))
        raise Conflict(f"{ahead.user} has reserved its GPUs in {most}", hint="extend it by less")


def _signal_holder(lease: Lease, file: Path, uid: int) -> None:
    """Asks the process that is proved to hold a lease to end it; a stopped one is resumed."""
    pid = lease.owner.pid
    with open_holder(lease, file, uid) as holder:
        try:
            holder.send(signal.SIGTERM)
        except Gone as exc:
            raise Gone(f"the holder of lease {lease.id} (pid {pid}) has just exited") from exc
        except Denied as exc:
            raise Denied(exc.reason, hint=f"ask {user_name(uid)}, or root") from exc


def _still_held(lease: Lease, insisted: bool) -> Conflict:
    """The error for a lease that is still held after its verified holder was asked to end it."""
    pid = lease.owner.pid
    if is_stopped(pid):
        return Conflict(
            f"lease {lease.id} is still held: its holder (pid {pid}) is stopped",
            hint=f"resume it, and it ends: kill -CONT {pid}",
        )
    if insisted:
        return Conflict(
            f"lease {lease.id} is still held by pid {pid} after two requests to stop",
            hint=f"see what it waits for: ps -o pid,stat,wchan,args -p {pid}",
        )
    return Conflict(
        f"lease {lease.id} was asked to end, but its command is still running",
        hint="release it again to kill the command",
    )


def _remove(book: Book, folder: Path, claim: Claim, left: Sequence[Locker]) -> Lease:
    """Removes an ended lease's file that another user's process keeps locked."""
    lease, who = claim.lease, ", ".join(described(locker) for locker in left)
    if lease is None or any(e.left for e in book.entries() if e.file == claim.file):
        raise barred(replace(claim, state=LeaseState.ORPHANED), this_requester()) or Gone(
            "it has ended"
        )
    try:
        (folder / claim.file).unlink(missing_ok=True)
    except OSError as exc:
        raise Denied(
            f"lease {lease.id} has ended; its file is locked by {who} and cannot be removed",
            hint=f"its owner ({claim.user}) or root can remove {folder / claim.file}",
        ) from exc
    return lease


def _find(book: Book, name: str, check: Check, for_uid: int | None) -> tuple[Path, Claim, Lease]:
    path, found, lease = book.find(name, os.getuid() if for_uid is None else for_uid)
    claim = Claim(lease, LeaseState.HELD, found.uid, user_name(found.uid), found.name)
    requesters = [] if for_uid is None else [LeaseRequester(for_uid, pid_scope())]
    for requester in (*requesters, this_requester()):
        if (bar := barred(claim, requester)) is not None:
            raise bar
    check(lease)
    return path / LEASES, claim, lease


def _is_released(book: Book, file: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while _is_held(book, file):
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _is_held(book: Book, file: str) -> bool:
    return any(entry.locked and entry.file == file for entry in book.entries())


# Leases past their end that are still held: their holder is stopped or not responding.

LATE_SECONDS = 15.0  # a running holder releases a lease within five


def overdue(book: Book, claims: Iterable[Claim], at: float) -> Iterator[tuple[str, str]]:
    """Yields the id of each such lease, and a sentence about it."""
    for claim in claims:
        lease = claim.lease
        if lease is None or lease.until is None or claim.state is not LeaseState.HELD:
            continue
        late = at - lease.until
        if late > LATE_SECONDS:
            since = f"lease {lease.id} expired {human_seconds(late)} ago but is still held"
            yield lease.id, f"{since}: {_reason(book, claim, lease)}"


def _reason(book: Book, claim: Claim, lease: Lease) -> str:
    """Returns the reason; a process is named only if it is verified to be the holder."""
    pid = lease.owner.pid
    if not any(_is_verified(claim, lease, path / LEASES / claim.file) for path in book.paths):
        return f"ask {claim.user}, or root"
    if is_stopped(pid):
        return f"its holder is stopped; resume it: kill -CONT {pid}"
    return f"its holder (pid {pid}) is not responding"


def _is_verified(claim: Claim, lease: Lease, file: Path) -> bool:
    try:
        open_holder(lease, file, claim.uid).close()
    except AndonError:
        return False
    return True
