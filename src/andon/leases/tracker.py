"""Tracks the lease book alongside the sampler: who holds what, and each process's lease.

It has its own thread, because a file system may hang: no sample waits for it, and what it last
read counts as unknown after some seconds.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from andon.errors import AndonError, Unavailable
from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.host import file_systems
from andon.host.processes.kin import pid_scope, read_kin
from andon.host.processes.known_kin import KnownKin
from andon.leases.book import places
from andon.leases.book.lease_book import Book
from andon.leases.listing import book_row
from andon.leases.rules.occupants import (
    BLANK,
    BookView,
    Marker,
    page_of,
    reserved_devices,
    wanted_pids,
)
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.lease import BookEntry
from andon.model.lease_list import BookRow
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower, SnapshotDelivery
from andon.units import human_seconds

log = logging.getLogger("andon.lease_tracker")

SILENT_SECONDS = 10.0
POLL_SECONDS = 2.0  # how late another process's lease is noticed
PACE = 400.0  # the pause after a read, in multiples of its cost: 0.25 % of a core
LONGEST_PAUSE_SECONDS = 30.0  # whatever it cost
LATE_SECONDS = 10.0  # beyond that pause; anything older is out of date
FRESH_SECONDS = 1.0  # a directory's time is coarse: a recent change may hide another
RETRY_SECONDS = 5.0
CLOSE_SECONDS = 1.0
TEXTS = RetryTexts(lambda reason: reason, lambda _lasted: "the lease book can be read again")

Seal = tuple[tuple[int, int] | None, ...]
"""Time and inode of every directory that may be part of the book; None where there is none."""
Seen = tuple[tuple[tuple[Process, ...], Mapping[str, str]], ...]
Listener = Callable[[], None]


class LeaseTracker:
    """What a server knows about the book. Every call returns at once."""

    def __init__(
        self,
        subscription: Subscription,
        env: Mapping[str, str] | None = None,
        open_book: Callable[..., Book] | None = None,
        poll_seconds: float = POLL_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._env, self._open_book = os.environ if env is None else env, open_book or Book
        self._paths: tuple[Path, ...] = ()
        self._reserved: tuple[str, ...] = ()
        self._watched: tuple[str, ...] = ()
        self._warned: list[str] = []
        self._page, self._marker = BLANK, Marker()
        self._known = False
        self._book: Book | None = None
        self._row: BookRow | None = None
        self._leases: Seal | None = None
        self._tickets: Seal = ()
        self._entries: tuple[BookEntry, ...] = ()
        self._unread = True
        self._judged: tuple[tuple[BookEntry, ...], Seen] | None = None
        self._kin = KnownKin()
        self._due = 0.0
        self._polled = self._current = time.monotonic()
        self._retrying = Retrying(
            log.warning, TEXTS, _translated, BackOff(retry_seconds, retry_seconds, at_once=0)
        )
        self._listeners: Listeners[[]] = Listeners(
            FailureLog("andon.lease_tracker", "a listener failed; the others continue")
        )
        self._last: Snapshot | None = None
        self._follower = Follower(
            subscription,
            self._try,
            "lease tracker",
            FailureLog("andon.lease_tracker", "following the lease book failed; retrying"),
            taking=SnapshotDelivery.NEWEST,
            # Longer than between two samples, which are as often as this or further apart.
            idle_seconds=lambda: 1.25 * poll_seconds,
            idle=self._try_again,
        )
        self._follower.start()

    # For callers.

    def page(self) -> BookView | None:
        """Returns the contents of the book; None while they are unknown."""
        return self._page if self._known and self._why_not() is None else None

    def marked(self, statuses: tuple[DeviceStatus, ...]) -> tuple[DeviceStatus, ...]:
        """Adds the lease of every process that has one; the sampler calls this for every sample."""
        page = self.page()
        return self._marker.marked(statuses, {} if page is None else page.marks)

    def why_not(self) -> str | None:
        """Returns why the book's contents are unknown; None if they are known."""
        found = self._why_not()
        return None if found is None else found.reason

    def opened(self) -> object:
        """Returns an object that changes when a book appears or goes; None while none is open."""
        return self._book

    def health(self) -> dict[str, Any]:
        """Whether the book is readable, which one it is, its owner, and its number of leases."""
        found, row = self._why_not(), self._row
        return {
            "state": "ok" if found is None else "degraded",
            "reason": None if found is None else found.reason,
            "hint": None if found is None else found.hint or None,
            "path": str(places.book_path(self._env)),
            "owner": None if row is None else row.owner,
            "readable": found is None and self._known,
            "count": len(self._page.claims) if found is None and self._known else None,
        }

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls a listener when leases, their ends, the queue or what is reserved change; it must
        not block.
        Returns a function that stops it."""
        return self._listeners.add(listener)

    def close(self) -> None:
        self._follower.close(CLOSE_SECONDS)

    # The thread.

    def _try_again(self) -> None:
        """Retries the last sample: the book may change between two samples."""
        if self._last is not None:
            self._try(self._last)

    def _try(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        if (
            time.monotonic() >= self._retrying.due
            and self._retrying.attempt(partial(self._poll, snapshot)) is not None
        ):
            self._book, self._judged = None, None
        self._polled = time.monotonic()

    def _poll(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if self._book is None:
            self._book, self._unread = self._opened(), True
        page, tickets = self._page, self._tickets
        self._check_changes()
        if not self._unread and not self._entries:
            self._current = now  # it is empty, and nothing has changed
        elif now >= self._due:
            self._read(self._book)
            self._current = time.monotonic()
        if self._entries or page.claims or page.sharing.former:
            self._judge(snapshot)
        self._known = True
        self._retrying.succeeded()
        if self._page.claims != page.claims or self._tickets != tickets:
            self._listeners.notify()

    def _check_changes(self) -> None:
        """Checks whether the book may differ from what was read, with only a few system calls."""
        leases = tuple(_stamp(folder) for folder in self._watched)
        if self._listeners:  # only they need the queue and what is reserved
            queues = (f"{path}/{places.TICKETS}" for path in self._paths)
            self._tickets = tuple(_stamp(folder) for folder in (*queues, *self._reserved))
        if leases == self._leases:
            return
        before, self._leases, self._unread = self._leases, leases, True
        if before is not None and [s and s[1] for s in leases] != [s and s[1] for s in before]:
            self._book = self._opened()  # a book appeared, was removed or was replaced

    def _opened(self) -> Book:
        """Returns the books as they are now; a network file system is not touched."""
        own, mounts = places.book_path(self._env), file_systems.read_mounts()
        places.refuse_bad_place(own, mounts)
        book = self._open_book(self._env, make=False)
        self._row = book_row(book)
        book.paths = tuple(p for p in book.paths if not file_systems.network_system(p, mounts))
        near = (p for p in _candidates(self._env) if not file_systems.network_system(p, mounts))
        self._paths = book.paths
        lasting = dict.fromkeys((own, *book.paths))  # a reboot empties books
        folders = (folder for path in lasting for folder in places.reservations_folders(path))
        self._reserved = tuple(map(str, folders))
        self._watched = (*(_watched(path, book.paths) for path in near), *self._reserved)
        self._warn_unread(book)
        return book

    def _warn_unread(self, book: Book) -> None:
        warnings = [f"{path} is ignored: {reason}" for path, reason in book.unread.items()]
        for warning in warnings:
            if warning not in self._warned:
                log.warning("%s", warning)
        self._warned = warnings

    def _read(self, book: Book) -> None:
        began = time.thread_time()
        self._entries = tuple(book.entries())
        self._read_reservations(book)
        pause = min(PACE * (time.thread_time() - began), LONGEST_PAUSE_SECONDS)
        self._due = time.monotonic() + pause
        newest = max((one[0] for one in self._leases or () if one is not None), default=0) / 1e9
        self._unread = abs(time.time() - newest) < FRESH_SECONDS

    def _read_reservations(self, book: Book) -> None:
        found = book.reservations()
        if found or self._page.reserved:
            self._page = replace(self._page, reserved=reserved_devices(found))

    def _judge(self, snapshot: Snapshot) -> None:
        """Matches the book with the devices, if either has changed."""
        seen = tuple((status.processes, status.missing) for status in snapshot.devices)
        if not self._page.sharing.former and self._is_judged(seen):
            return
        pids = wanted_pids(self._entries, snapshot.devices)
        kin = self._kin.of(p for s in snapshot.devices for p in s.processes if p.pid in pids)
        self._page = page_of(
            self._entries, snapshot.devices, kin, pid_scope(), self._page, snapshot.at
        )
        unrelated = bool(self._page.sharing.unsure)  # they may be readable next time
        self._judged = None if unrelated else (self._entries, seen)

    def _is_judged(self, seen: Seen) -> bool:
        if self._judged is None or self._judged[0] != self._entries:
            return False
        before = self._judged[1]
        return len(before) == len(seen) and all(
            new[0] is old[0] and new[1] == old[1] for new, old in zip(seen, before, strict=True)
        )

    def _why_not(self) -> AndonError | None:
        if (trouble := self._retrying.trouble) is not None:
            return trouble
        interval_seconds = self._follower.session.interval_seconds
        now, slack = time.monotonic(), max(SILENT_SECONDS, 5 * interval_seconds)
        if now - self._polled >= slack:
            return Unavailable(
                f"the lease book has not responded for {human_seconds(now - self._polled)}",
                hint="check its file system: andon doctor",
            )
        old = now - self._current
        if old >= LONGEST_PAUSE_SECONDS + max(LATE_SECONDS, slack):
            return Unavailable(
                f"the lease book was last read {human_seconds(old)} ago",
                hint="see who fills it: andon leases, andon doctor",
            )
        return None


def with_leases(snapshot: Snapshot) -> Snapshot:
    """Returns a snapshot with each process's lease; unchanged if the book cannot be read."""
    try:
        places.refuse_network(places.book_path(os.environ), file_systems.read_mounts())
        entries = tuple(Book(os.environ, make=False).entries())
    except (AndonError, OSError) as exc:
        log.debug("the lease book cannot be read: %s", exc)
        return snapshot
    kin = read_kin(wanted_pids(entries, snapshot.devices), containers=True) if entries else {}
    page = page_of(entries, snapshot.devices, kin, pid_scope(), BLANK, snapshot.at)
    return replace(snapshot, devices=Marker().marked(snapshot.devices, page.marks))


def _translated(error: Exception) -> AndonError:
    log.debug("reading the lease book failed", exc_info=error)
    return Unavailable(f"the lease book cannot be read: {error}")


def _candidates(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Returns every path where a book may exist or appear."""
    named = env.get(places.VARIABLE)
    usual = [places.SYSTEM_BOOK, places.COMMON_BOOK]
    return tuple(dict.fromkeys([Path(named), *usual] if named else usual))


def _watched(path: Path, read: tuple[Path, ...]) -> str:
    """Returns the path whose time shows changes; of a book that is not read, the book's own."""
    is_other = path.is_dir() and path not in read and not places.is_unused(path)
    return str(path) if is_other else f"{path}/{places.LEASES}"


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - for every sample
    except FileNotFoundError:
        return None
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_ino
