"""Ends leases and moves their ends: the same way for the command line and for the server."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from andon.core.sharing.lockers import Locker
from andon.core.sharing.rights import Asker, barred
from andon.errors import Conflict, Denied, Gone
from andon.host.kin import here, user_name
from andon.leases.book import Book
from andon.leases.holders import LockTable, described, is_stopped, open_holder, strangers
from andon.leases.places import LEASES
from andon.model.work import Claim, Lease, LeaseState

RELEASE_SECONDS = 12.0
GLANCE_SECONDS = 0.05

Check = Callable[[Lease], None]


def asker() -> Asker:
    """This process, as one that may end its user's leases."""
    return Asker(os.getuid(), here())


def no_check(lease: Lease) -> None:
    """On its own machine a user needs no proof but its uid."""


def release(
    book: Book,
    name: str,
    check: Check = no_check,
    patience_seconds: float = RELEASE_SECONDS,
    insist: bool = True,
) -> Lease:
    """Ask a lease's holder to end it, and wait until it is out of the book.

    Asked a second time, a holder kills what does not end: that is what `insist` does.
    """
    folder, claim, lease = _find(book, name, check)
    if left := strangers(folder.parent, claim.file, lease, claim.uid, here(), LockTable()):
        return _remove(book, folder, claim, left)
    for _ in range(2 if insist else 1):
        ask(lease, folder / claim.file, claim.uid)
        if _is_gone(book, claim.file, patience_seconds):
            return lease
    raise _still_held(lease, insist)


def extend(book: Book, name: str, seconds: float, check: Check = no_check) -> Lease:
    """Let a lease end so much later from now; returns it as it stands afterwards."""
    folder, claim, lease = _find(book, name, check)
    if lease.until is None:
        raise Conflict(
            f"lease {lease.id} has no end that could be moved", hint="it ends with its command"
        )
    until = time.time() + seconds
    try:
        os.utime(folder / claim.file, (until, until), follow_symlinks=False)
    except FileNotFoundError as exc:
        raise Gone(f"lease {lease.id} has ended", hint="ask for a new one") from exc
    except PermissionError as exc:
        raise Denied(
            f"lease {lease.id} may not be changed", hint=f"ask {claim.user}, or root"
        ) from exc
    if not _is_held(book, claim.file):
        raise Gone(f"lease {lease.id} has ended", hint="ask for a new one")
    return replace(lease, until=until)


def ask(lease: Lease, file: Path, uid: int) -> None:
    """Signal the process that is proved to hold a lease; one that is stopped goes on to end."""
    owner = lease.owner
    descriptor = open_holder(lease, file, uid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        if is_stopped(owner.pid):
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
    except ProcessLookupError as exc:
        raise Gone(f"the holder of lease {lease.id} (pid {owner.pid}) has just ended") from exc
    except PermissionError as exc:
        raise Denied(
            f"pid {owner.pid} may not be signalled", hint=f"ask {user_name(uid)}, or root"
        ) from exc
    finally:
        os.close(descriptor)


def _still_held(lease: Lease, insisted: bool) -> Conflict:
    """What keeps a lease whose holder was asked to end it; the holder has been verified."""
    pid = lease.owner.pid
    if is_stopped(pid):
        return Conflict(
            f"lease {lease.id} is still held: its holder (pid {pid}) is stopped",
            hint=f"let it go on, and it ends: kill -CONT {pid}",
        )
    if insisted:
        return Conflict(
            f"lease {lease.id} is still held by pid {pid}, although it was asked twice to end",
            hint=f"see what it waits for: ps -o pid,stat,wchan,args -p {pid}",
        )
    return Conflict(
        f"lease {lease.id} was asked to end, and its command has not ended yet",
        hint="ask once more, and it is killed",
    )


def _remove(book: Book, folder: Path, claim: Claim, left: Sequence[Locker]) -> Lease:
    """A lease without a holder, whose file another user keeps locked: that holds nothing."""
    lease, who = claim.lease, ", ".join(described(locker) for locker in left)
    if lease is None or any(e.left for e in book.entries() if e.file == claim.file):
        raise barred(replace(claim, state=LeaseState.ORPHANED), asker()) or Gone("it has ended")
    try:
        (folder / claim.file).unlink(missing_ok=True)
    except OSError as exc:
        raise Denied(
            f"lease {lease.id} has ended; its file is locked by {who} and cannot be removed",
            hint=f"its owner ({claim.user}) or root can remove {folder / claim.file}",
        ) from exc
    return lease


def _find(book: Book, name: str, check: Check) -> tuple[Path, Claim, Lease]:
    path, found, lease = book.find(name, os.getuid())
    claim = Claim(lease, LeaseState.HELD, found.uid, user_name(found.uid), found.name)
    bar = barred(claim, asker())
    if bar is not None:
        raise bar
    check(lease)
    return path / LEASES, claim, lease


def _is_gone(book: Book, file: str, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while _is_held(book, file):
        if time.monotonic() >= end:
            return False
        time.sleep(GLANCE_SECONDS)
    return True


def _is_held(book: Book, file: str) -> bool:
    return any(entry.locked and entry.file == file for entry in book.entries())
