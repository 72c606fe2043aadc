"""Ends leases and moves their ends: the same way for the command line and for the server."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from andon.core.lease_rights import Asker, barred
from andon.errors import Conflict, Denied, Gone
from andon.host.kin import here, started_ticks, user_name
from andon.leases.book import Book
from andon.leases.places import LEASES
from andon.model.work import Claim, Lease, Standing

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
    _, claim, lease = _find(book, name, check)
    ask(lease)
    if _is_gone(book, claim.file, patience_seconds):
        return lease
    if insist:
        ask(lease)
        if _is_gone(book, claim.file, patience_seconds):
            return lease
        raise Conflict(f"lease {lease.id} is still held", hint=f"kill -9 {lease.owner.pid}")
    raise Conflict(
        f"lease {lease.id} was asked to end, and its command has not ended yet",
        hint="ask once more, and it is killed",
    )


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


def ask(lease: Lease) -> None:
    """Signal the holder, and no later process of its number."""
    owner = lease.owner
    gone = Gone(
        f"the holder of lease {lease.id} (pid {owner.pid}) is gone",
        hint="its devices are free once its work has ended",
    )
    try:
        descriptor = os.pidfd_open(owner.pid)
    except OSError as exc:
        raise gone from exc
    try:
        if started_ticks(owner.pid) != owner.started_ticks:
            raise gone
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except ProcessLookupError as exc:
        raise gone from exc
    except PermissionError as exc:
        raise Denied(
            f"pid {owner.pid} may not be signalled", hint=f"ask {owner.user}, or root"
        ) from exc
    finally:
        os.close(descriptor)


def _find(book: Book, name: str, check: Check) -> tuple[Path, Claim, Lease]:
    path, found, lease = book.find(name, os.getuid())
    claim = Claim(lease, Standing.HELD, found.uid, user_name(found.uid), found.name)
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
