"""The lease book: reads its leases, tickets and cordons, and adds and removes them."""

import errno
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.host.files import lock, require_locks
from andon.host.users import is_root, user_name
from andon.leases.book import contents, files, places, tickets
from andon.leases.book.contents import read_usage
from andon.leases.book.files import BookFile
from andon.leases.book.hold import Hold, LeaseHold
from andon.leases.book.lock_holders import (
    TIMEOUT_SECONDS,
    LockTable,
    mutex,
    named_holders,
    strangers,
)
from andon.leases.book.places import CORDONS, LEASES, TICKETS, FolderStamp
from andon.leases.book.tickets import TICKET_SUFFIX, TicketHold
from andon.leases.rules.queue import Waiting
from andon.leases.rules.usage import RecentUsage
from andon.model import wire
from andon.model.codec import document
from andon.model.lease import BookEntry, Cordon, Lease, Reservation, Ticket
from andon.model.naming import may_mean_lease
from andon.units import counted, sh

T = TypeVar("T")
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # without characters that look alike
ID_LETTERS = 5
MOST_REMEMBERED = 4096
LEASE_SUFFIX = ".lease"
SUFFIXES = {LEASES: LEASE_SUFFIX, TICKETS: TICKET_SUFFIX, CORDONS: ""}

Key = tuple[Path, str, str, int, int]
"""Book, part, name, inode and owner of a file: together they identify it."""
Counts = dict[tuple[Path, int], int]
"""How many files a user has in a book."""
Stamp = tuple[int, float]
"""Size and ctime of a file, which no one can set: while they stay, so does its content."""


class Book:
    """Every valid book of this machine; new leases go into one of them."""

    def __init__(self, env: Mapping[str, str] | None = None, make: bool = True) -> None:
        env = os.environ if env is None else env
        require_locks()
        self.path = places.book_path(env)
        if make:
            places.prepare(self.path)
        self.unread: dict[Path, str] = {}  # other books that cannot be read, and why
        self._lends = make
        self.paths = tuple(p for p in places.books(env) if self._exists(p))
        self._seen: dict[Key, tuple[Stamp, Any]] = {}
        self._reserved: dict[Path, tuple[FolderStamp | None, tuple[Reservation, ...]]] = {}
        self._near: tuple[tuple[Path, ...], tuple[Path, ...]] | None = None
        self._counted: dict[str, int] = {}  # the files of a part when it was last listed
        self._ignored: dict[tuple[str, str], tuple[str, ...]] = {}

    def locked(self, timeout_seconds: float = TIMEOUT_SECONDS) -> AbstractContextManager[None]:
        """Holds the lock of the book: one grant at a time. No driver is called and nothing sleeps
        inside."""
        there = [path for path in self.paths if path == self.path or places.is_folder(path)]
        return mutex(there, timeout_seconds)

    # Reading.

    def entries(self) -> list[BookEntry]:
        """Returns every lease file, not judged yet."""
        table = LockTable()
        read: list[tuple[BookFile, Lease | None]] = []
        bad: Counts = {}
        for path, _, found in self._files(LEASES, self._known):
            lease = contents.dated(self._parsed(path, LEASES, found, contents.lease_in), found)
            if lease is None and not found.locked:
                bad[path, found.uid] = bad.get((path, found.uid), 0) + 1
            read.append((_really_locked(path, found, lease, table), lease))
        self._ignore(LEASES, "not valid leases", bad)
        return contents.entries_of(read)

    def waiting(self) -> list[Waiting]:
        """Returns the tickets whose owners are alive. Only root and the owner of the book for
        new leases may raise their priority."""
        out: list[Waiting] = []
        bad: Counts = {}
        pushing = {self._owner(self.path)} | ({0} if is_root(0) else set())
        for path, folder, found in self._files(TICKETS, self._known):
            ticket = self._parsed(path, TICKETS, found, contents.ticket_in)
            last_awake = tickets.last_awake(folder, found) if found.locked else None
            if ticket is None:
                bad[path, found.uid] = bad.get((path, found.uid), 0) + 1
            elif last_awake is not None:
                if ticket.priority > 0 and (path != self.path or found.uid not in pushing):
                    ticket = replace(ticket, priority=0)
                out.append(Waiting(ticket, last_awake))
        self._ignore(TICKETS, "not valid tickets", bad)
        return out

    def usage(self) -> RecentUsage:
        """Returns what each user used lately, as counted by root's or the book owner's server."""
        return read_usage(self.path)

    def cordons(self) -> tuple[Cordon, ...]:
        return tuple(
            cordon
            for path, _, found in self._files(CORDONS)
            if (cordon := contents.cordon_in(found, self._owner(path))) is not None
        )

    def reservations(self) -> tuple[Reservation, ...]:
        """Returns what is reserved on this machine."""
        found = tuple(one for path in self._places() for one in self._reserved_in(path))
        if not found:
            return ()
        from andon.leases.rules.reservations import with_older_leases

        known = with_older_leases(found, self.entries, time.time())
        return tuple(map(self._noted, found, known))

    def note_end(self, uuids: Collection[str], since: float) -> None:
        """Notes which reservations waited for a lease that ends now, if one was made since it
        began: their owners' time to use them begins."""
        if any(places.changed_at(path) > since for path in self._places()):
            from andon.leases.rules.reservations import delays

            with suppress(AndonError, OSError):
                for one in self.reservations():
                    if not one.blocked and delays(one, since, uuids, time.time()):
                        self._note_blocked(one)

    def _noted(self, before: Reservation, one: Reservation) -> Reservation:
        """Notes what delays a reservation; a killed lease does once."""
        if one.blocked:
            self._note_blocked(one)
        elif one.delayed != before.delayed:
            from andon.leases.book import reservations

            return one if any(reservations.note_killed(p, one) for p in self._places()) else before
        return one

    def _note_blocked(self, one: Reservation) -> None:
        from andon.leases.book import reservations

        for path in self._places():
            reservations.note_blocked(path, one)

    def _reserved_in(self, folder: Path) -> tuple[Reservation, ...]:
        """Returns the reservations in a folder, which are read again if they have changed."""
        stamp, known = places.reservations_stamp(folder), self._reserved.get(folder)
        if stamp is None or known is None or known[0] != stamp:
            found: tuple[Reservation, ...] = ()
            if places.has_reservations(folder):
                from andon.leases.book import reservations
                from andon.leases.policy_file import unused_seconds

                found = reservations.read(folder, unused_seconds())
            self._reserved[folder] = known = stamp, found
        return known[1]

    def _places(self) -> tuple[Path, ...]:
        """Returns where reservations are, beside books that a reboot has emptied, too."""
        if self._near is None or self._near[0] is not self.paths:
            near = (places.reservations_folders(path) for path in (self.path, *self.paths))
            found = dict.fromkeys(folder for folders in near for folder in folders)
            self._near = self.paths, tuple(found)
        return self._near[1]

    def left_out(self) -> tuple[str, ...]:
        """Returns whose files were ignored when leases and tickets were last read, and why."""
        return tuple(one for found in self._ignored.values() for one in found)

    def names(self) -> frozenset[str]:
        """The names of the lease files, locked or not: cheap enough for many calls a second."""
        return self._listed(LEASES)

    def ticket_ids(self) -> frozenset[str]:
        """Returns the tickets in the queue, dead or alive; equally cheap."""
        return tickets.ids(self._listed(TICKETS))

    def _listed(self, part: str) -> frozenset[str]:
        found: set[str] = set()
        for path in self.paths:
            with suppress(OSError):
                found.update(os.listdir(path / part))  # noqa: PTH208 - names alone
        self._counted[part] = len(found)
        return frozenset(found)

    # Writing; with the book locked.

    def write_lease(self, lease: Lease, uid: int | None = None) -> LeaseHold:
        """Writes a lease, which belongs to its file's owner; root may give it to another user."""
        name = f"{lease.id}-{os.urandom(8).hex()}{LEASE_SUFFIX}"
        text = wire.dumps(document(lease)) + "\n"
        with self._making(LEASES) as folder:
            made = files.make(folder, name, text, lease.until, uid)
            hold = Hold(name, made, folder, place=self._place(LEASES, name))
            ends = partial(self.note_end, lease.devices, lease.since)
            return LeaseHold(lease, hold, before_release=ends)

    def write_ticket(self, ticket: Ticket) -> TicketHold:
        name = f"{ticket.id}-{os.urandom(8).hex()}{TICKET_SUFFIX}"
        text = wire.dumps(document(ticket)) + "\n"
        with self._making(TICKETS) as folder:
            descriptor, awake = tickets.make(folder, name, text)
            place = self._place(TICKETS, name)
            return TicketHold(name, descriptor, folder, place=place, awake=awake)

    def move_to_end(self, moved: Iterable[Ticket]) -> None:
        """Moves this user's tickets to the end of the queue, in this order: the kernel's time of a
        ticket's file is its place."""
        with self._folder(self.path, TICKETS) as folder:
            for ticket in moved:
                tickets.move_to_end(folder, ticket.id, os.getuid())

    def new_id(self, names: frozenset[str]) -> str:
        """Returns a short name that none of the book's leases has."""
        used = {name.partition("-")[0] for name in names}
        while True:
            made = "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(ID_LETTERS))
            if made not in used:
                return made

    def sweep(self, dead: Iterable[BookEntry]) -> None:
        """Removes dead files, as far as this user may."""
        uid = os.getuid()
        names = {entry.file for entry in dead}
        for path in self.paths:
            with self._folder(path, LEASES) as folder:
                for found in files.scan(folder, LEASE_SUFFIX):
                    if found.name in names and not found.locked and uid in (0, found.uid):
                        files.remove(folder, found.name)
                files.remove_drafts(folder, uid)
            with self._folder(path, TICKETS) as folder:
                tickets.sweep(folder, uid)
                files.remove_drafts(folder, uid)

    def cordon(self, cordon: Cordon) -> None:
        """Writes a cordon; only the book's owner and root may: the directory's mode ensures it."""
        with self._folder(self.path, CORDONS) as folder, self._translated(CORDONS, folder):
            text = wire.dumps(document(cordon)) + "\n"
            os.close(files.make(folder, contents.cordon_name(cordon.uuid), text))

    def uncordon(self, uuid: str) -> bool:
        """Removes a cordon; returns whether the device was cordoned."""
        found = False
        for path in self.paths:
            with self._folder(path, CORDONS) as folder:
                try:
                    os.unlink(contents.cordon_name(uuid), dir_fd=folder)
                    found = True
                except FileNotFoundError:
                    continue
                except OSError as exc:
                    raise self._denied(path) from exc
        return found

    def find(self, name: str, uid: int | None = None) -> tuple[Path, BookFile, Lease]:
        """Finds the lease with this id or prefix, in any book; raises Gone for none.

        Anyone may write any id into a file: of two with the same id, this user's counts.
        """
        matching = [
            (path, found, lease)
            for path, _, found in self._files(LEASES)
            if may_mean_lease(name, found.name)
            and (lease := contents.dated(contents.lease_in(found), found)) is not None
        ]
        exact = [m for m in matching if m[2].id == name and m[1].locked]
        own = [m for m in exact if m[1].uid == uid]
        alive = own or exact or [m for m in matching if m[1].locked]
        if not name or not alive:
            raise Gone(f"there is no lease {name[:40]!r}", hint="andon leases lists them")
        if len(alive) > 1:
            whose = tuple(f"{user_name(m[1].uid)}: {m[1].name}" for m in alive[:5])
            raise Invalid(
                f"{len(alive)} leases begin with {name[:40]!r}",
                hint="give more of the id",
                mistakes=whose,
            )
        return alive[0]

    # Reservations, which no lock of a process holds.

    def reserve(self, one: Reservation, uid: int | None = None) -> None:
        """Writes a reservation of this user; root may write another's."""
        from andon.leases.book import reservations

        folder = places.prepare_reservations(self.path)
        key = os.getuid() if uid is None else uid, one.id
        for place in self._places():
            if key in ((known.uid, known.id) for known in self._reserved_in(place)):
                folder = place
        reservations.write(folder, one, uid)

    def note_use(self, one: Reservation) -> None:
        from andon.leases.book import reservations

        for path in self._places():
            reservations.note_use(path, one)

    def cancel(self, one: Reservation) -> None:
        from andon.leases.book import reservations

        for path in self._places():
            if path.exists() and not places.is_closed(path):
                reservations.remove(path, one)

    # Helpers.

    def _exists(self, path: Path) -> bool:
        """Whether a book can be read; the one for new leases reports errors itself."""
        if path == self.path:
            return os.path.lexists(path) and not places.is_unused(path)
        try:
            for part in places.MODES:
                os.close(files.open_folder(path, part))
        except AndonError as exc:
            if places.is_folder(path):
                self._pass_over(path, exc)
            return False
        return True

    def _pass_over(self, path: Path, error: AndonError) -> None:
        """Skips a book that cannot be read; raises Unavailable if it is the machine's book and this
        process grants leases, because it is never treated as empty."""
        self.unread[path] = error.reason
        if self._lends and path == places.SYSTEM_BOOK:
            raise Unavailable(
                f"no device is leased while the machine's book cannot be read: {error.reason}",
                hint=f"sudo chmod 755 {sh(path)}",
            ) from error

    def _files(
        self, part: str, known: Callable[[Path, str], files.Known] | None = None
    ) -> Iterator[tuple[Path, int, BookFile]]:
        """The files of a part, in every book; a book that fails does not affect the others."""
        beyond: Counts = {}
        for path in self.paths:
            many: dict[int, int] = {}
            seen = files.unknown if known is None else known(path, part)
            try:
                with self._folder(path, part) as folder:
                    for found in files.scan(folder, SUFFIXES[part], seen, many):
                        yield path, folder, found
            except AndonError as exc:
                if path == self.path:
                    raise
                self._pass_over(path, exc)
            beyond.update({(path, uid): count for uid, count in many.items()})
        self._ignore(part, "too many from one user", beyond)

    def _ignore(self, part: str, why: str, counts: Counts) -> None:
        if not counts:
            self._ignored.pop((part, why), None)
            return
        self._ignored[part, why] = tuple(
            f"{path / part}: {counted(count, 'file')} of {user_name(uid)} ignored: {why}"
            for (path, uid), count in counts.items()
        )

    def _known(self, path: Path, part: str) -> files.Known:
        def known(name: str, facts: os.stat_result) -> bool:
            cached = self._seen.get((path, part, name, facts.st_ino, facts.st_uid))
            return cached is not None and cached[0] == (facts.st_size, facts.st_ctime)

        return known

    def _parsed(self, path: Path, part: str, found: BookFile, read: Callable[[BookFile], T]) -> T:
        """Returns the parsed content of a file, cached while the file does not change."""
        key = (path, part, found.name, found.inode, found.uid)
        known, stamp = self._seen.get(key), (found.size, found.changed)
        if known is None or known[0] != stamp or found.text is not None:
            if len(self._seen) >= MOST_REMEMBERED:
                self._seen.clear()
            self._seen[key] = known = (stamp, read(found))
        cached: T = known[1]
        return cached

    def _owner(self, path: Path) -> int:
        """Returns the uid of a book's owner; -1 if the book no longer exists."""
        try:
            return path.stat().st_uid
        except OSError:
            return -1

    @contextmanager
    def _folder(self, path: Path, part: str) -> Iterator[int]:
        folder = files.open_folder(path, part)
        try:
            yield folder
        finally:
            os.close(folder)

    def _place(self, part: str, name: str) -> str:
        return str(self.path / part / name)

    @contextmanager
    def _making(self, part: str) -> Iterator[int]:
        """Opens the directory for a new file, with every holder's shared lock; it stays open."""
        folder = files.open_folder(self.path, part)
        try:
            with self._translated(part, folder):
                lock(folder, shared=True)
                self._refuse_many(part, folder)
                yield folder
        except BaseException:
            os.close(folder)
            raise

    def _refuse_many(self, part: str, folder: int) -> None:
        """Refuses a file beyond the maximum: such files are not read, so another lease would
        hold nothing. A recent count is repeated only if it was near the limit."""
        if self._counted.get(part, files.MOST_OF_ONE_USER) < files.MOST_OF_ONE_USER // 2:
            return
        count = files.count_of(folder, SUFFIXES[part], os.getuid())
        if count >= files.MOST_OF_ONE_USER:
            raise Conflict(
                f"you have {count} files in {self.path / part}; no more are read",
                hint="release some, or have root remove unlocked ones: sudo andon setup",
            )

    @contextmanager
    def _translated(self, part: str, folder: int) -> Iterator[None]:
        try:
            yield
        except PermissionError as exc:
            raise self._denied(self.path) from exc
        except BlockingIOError as exc:
            who, _ = named_holders(folder)
            raise Conflict(
                f"another process holds an exclusive lock on {self.path / part}: {who}",
                hint="andon never does that; its user or root can stop it",
            ) from exc
        except OSError as exc:
            full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Unavailable(
                f"the lease book {self.path} cannot be written: {exc.strerror}",
                hint="its file system is full" if full else f"choose another: {places.VARIABLE}",
            ) from exc

    def _denied(self, path: Path) -> AndonError:
        return Denied(
            f"only root and the owner of the lease book {path} "
            f"({user_name(path.stat().st_uid)}) may do that",
            hint="use sudo",
        )


def _really_locked(path: Path, found: BookFile, lease: Lease | None, table: LockTable) -> BookFile:
    """Returns the file; as unlocked if only others' processes lock it and its holder is dead."""
    if not found.locked or lease is None:
        return found
    if strangers(path, found.name, lease, found.uid, table):
        return replace(found, locked=False)
    return found
