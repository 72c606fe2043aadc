"""The lease book: what is in it, and how something gets into it or out of it."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from andon.core.holdings import Here
from andon.core.queueing import Waiting
from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.host.kin import group_lives, here, user_name
from andon.leases import files, places
from andon.leases.files import Found
from andon.leases.hold import Hold, LeaseHold
from andon.leases.holders import LockTable, strangers
from andon.leases.mutex import PATIENCE_SECONDS, mutex
from andon.leases.places import CORDONS, LEASES, TICKETS
from andon.model import wire, work_wire
from andon.model.work import Cordon, Entry, Lease, Owner, Ticket

T = TypeVar("T")
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
ID_LETTERS = 5
MOST_REMEMBERED = 4096
_NEVER: tuple[int, Any] = (-1, None)
LEASE_SUFFIX, TICKET_SUFFIX = ".lease", ".ticket"


class Book:
    """Every book of this machine; new leases go into one of them."""

    def __init__(self, env: Mapping[str, str] | None = None, make: bool = True) -> None:
        env = os.environ if env is None else env
        self.path = places.book_path(env)
        if make:
            places.prepare(self.path)
        self.paths = tuple(p for p in places.books(env) if p.is_dir())
        self._seen: dict[str, tuple[int, Any]] = {}

    def locked(self, patience_seconds: float = PATIENCE_SECONDS) -> AbstractContextManager[None]:
        """One grant at a time; no driver call and no sleep belongs inside."""
        return mutex(self.paths, patience_seconds)

    # Reading.

    def entries(self) -> list[Entry]:
        """Every file of the leases, judged by nobody yet."""
        looking_from, table = here(), LockTable()
        return [
            _entry(path, found, self._parsed(found, _lease), looking_from, table)
            for path, found in self._files(LEASES, self._known)
        ]

    def waiting(self) -> list[Waiting]:
        """The tickets whose owners live. Only root and a book's owner may push in front."""
        out = []
        for path, found in self._files(TICKETS, self._known):
            ticket = self._parsed(found, _ticket)
            if found.locked and ticket is not None:
                if found.uid not in (0, path.stat().st_uid) and ticket.priority > 0:
                    ticket = replace(ticket, priority=0)
                out.append(Waiting(ticket, found.modified))
        return out

    def cordons(self) -> tuple[Cordon, ...]:
        return tuple(
            cordon
            for _, found in self._files(CORDONS)
            if (cordon := _read(found.text, work_wire.cordon_from_json)) is not None
        )

    def names(self) -> frozenset[str]:
        """The files of the leases, locked or not: cheap enough to ask many times a second."""
        return self._listed(LEASES)

    def ticket_ids(self) -> frozenset[str]:
        """Who is in line, dead or alive; as cheap."""
        return frozenset(name.partition("-")[0] for name in self._listed(TICKETS))

    def _listed(self, part: str) -> frozenset[str]:
        found: set[str] = set()
        for path in self.paths:
            with suppress(OSError):
                found.update(os.listdir(path / part))  # noqa: PTH208 - names alone
        return frozenset(found)

    # Writing; with the book locked.

    def write_lease(self, lease: Lease) -> LeaseHold:
        name = f"{lease.id}-{os.urandom(8).hex()}{LEASE_SUFFIX}"
        text = wire.dumps(work_wire.lease_to_json(lease)) + "\n"
        return LeaseHold(lease, self._make(LEASES, name, text, lease.until))

    def write_ticket(self, ticket: Ticket) -> Hold:
        name = f"{ticket.id}-{os.urandom(8).hex()}{TICKET_SUFFIX}"
        text = wire.dumps(work_wire.ticket_to_json(ticket)) + "\n"
        return self._make(TICKETS, name, text, None)

    def new_id(self) -> str:
        """A short name that no lease in the book has."""
        used = {name.partition("-")[0] for name in self.names()}
        while True:
            made = "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(ID_LETTERS))
            if made not in used:
                return made

    def sweep(self, dead: Iterable[Entry]) -> None:
        """Remove what is of no use to anybody, as far as it is ours to remove."""
        uid = os.getuid()
        names = {entry.file for entry in dead}
        for path in self.paths:
            for part in (LEASES, TICKETS):
                with self._folder(path, part) as folder:
                    for found in files.look(folder):
                        old = found.name in names or part == TICKETS
                        if old and not found.locked and uid in (0, found.uid):
                            files.remove(folder, found.name)
                    for name in files.drafts(folder, uid):
                        files.remove(folder, name)

    def cordon(self, cordon: Cordon) -> None:
        """Only the book's owner and root may: the folder's mode says so."""
        with self._folder(self.path, CORDONS) as folder, self._translated():
            text = wire.dumps(work_wire.cordon_to_json(cordon)) + "\n"
            os.close(files.make(folder, _file_name(cordon.uuid), text))

    def uncordon(self, uuid: str) -> bool:
        """Whether it was cordoned."""
        found = False
        for path in self.paths:
            with self._folder(path, CORDONS) as folder:
                try:
                    os.unlink(_file_name(uuid), dir_fd=folder)
                    found = True
                except FileNotFoundError:
                    continue
                except OSError as exc:
                    raise self._denied(path) from exc
        return found

    def find(self, name: str, uid: int | None = None) -> tuple[Path, Found, Lease]:
        """The lease of an id or its beginning, wherever it is; Gone for none.

        A stranger may write any id into a file: where two have the same, it is this user's.
        """
        matching = [
            (path, found, lease)
            for path, found in self._files(LEASES)
            if found.name.endswith(LEASE_SUFFIX)
            and found.name.startswith(name)
            and (lease := _dated(_lease(found), found)) is not None
        ]
        exact = [m for m in matching if m[2].id == name and m[1].locked]
        own = [m for m in exact if m[1].uid == uid]
        alive = own or exact or [m for m in matching if m[1].locked]
        if not name or not alive:
            raise Gone(f"there is no lease {name[:40]!r}", hint="andon leases lists them")
        if len(alive) > 1:
            raise Invalid(f"{len(alive)} leases begin with {name[:40]!r}", hint="write more of it")
        return alive[0]

    # Helpers.

    def _files(
        self, part: str, known: Callable[[str, int], bool] = files.unknown
    ) -> Iterator[tuple[Path, Found]]:
        for path in self.paths:
            with self._folder(path, part) as folder:
                for found in files.look(folder, known):
                    yield path, found

    def _known(self, name: str, size: int) -> bool:
        return self._seen.get(name, _NEVER)[0] == size

    def _parsed(self, found: Found, read: Callable[[Found], T]) -> T:
        """What a file says; read and understood once, and kept while it does not grow."""
        known = self._seen.get(found.name, _NEVER)
        if known[0] != found.size or found.text is not None:
            if len(self._seen) >= MOST_REMEMBERED:
                self._seen.clear()
            self._seen[found.name] = known = (found.size, read(found))
        kept: T = known[1]
        return kept

    @contextmanager
    def _folder(self, path: Path, part: str) -> Iterator[int]:
        folder = files.open_folder(path / part)
        try:
            yield folder
        finally:
            os.close(folder)

    def _make(self, part: str, name: str, text: str, modified: float | None) -> Hold:
        folder = files.open_folder(self.path / part)
        try:
            with self._translated():
                fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
                made = files.make(folder, name, text, modified)
                return Hold(name, made, folder, place=str(self.path / part / name))
        except BaseException:
            os.close(folder)
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as exc:
            raise self._denied(self.path) from exc
        except BlockingIOError as exc:
            raise Conflict(
                f"somebody has locked {self.path / LEASES} for himself", hint="try again"
            ) from exc
        except OSError as exc:
            full = exc.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Unavailable(
                f"the lease book {self.path} cannot be written: {exc.strerror}",
                hint="its file system is full" if full else f"name another: {places.VARIABLE}",
            ) from exc

    def _denied(self, path: Path) -> AndonError:
        return Denied(
            f"only root and the owner of the lease book {path} "
            f"({user_name(path.stat().st_uid)}) may do that",
            hint="with sudo",
        )


def _entry(
    path: Path, found: Found, lease: Lease | None, looking_from: Here, table: LockTable
) -> Entry:
    lease = _dated(lease, found)
    work = lease.work if lease else None
    locked = found.locked and not (
        lease and strangers(path, found.name, lease, found.uid, looking_from, table)
    )
    lives = (
        not locked
        and lease is not None
        and work is not None
        and work.group is not None
        and lease.owner.pid_namespace == looking_from.pid_namespace
        and group_lives(work.group, work.started_ticks if work.pid == work.group else None)
    )
    return Entry(found.name, found.uid, user_name(found.uid), locked, lease, lives)


def _lease(found: Found) -> Lease | None:
    """The first line is the lease, later ones say what it is for; half a line is no line."""
    if found.text is None:
        return None
    first, *more = found.text.split("\n")
    lease = _read(first, work_wire.lease_from_json)
    if lease is None:
        return None
    for line in more[:-1]:
        with suppress(Invalid):
            lease = work_wire.with_work(lease, wire.loads(line))
    return replace(lease, owner=_owned(lease.owner, found.uid))


def _dated(lease: Lease | None, found: Found) -> Lease | None:
    """With the end that its owner has given it since: the file's own time."""
    if lease is None or lease.until is None:
        return lease
    return replace(lease, until=min(max(0.0, found.modified), work_wire.FURTHEST))


def _ticket(found: Found) -> Ticket | None:
    ticket = _read(found.text, work_wire.ticket_from_json)
    return replace(ticket, owner=_owned(ticket.owner, found.uid)) if ticket else None


def _owned(owner: Owner, uid: int) -> Owner:
    """Whose it is says the file system and not the file."""
    return replace(owner, uid=uid, user=user_name(uid))


def _read(text: str | None, read: Callable[[wire.Json], T]) -> T | None:
    if text is None:
        return None
    try:
        return read(wire.loads(text))
    except Invalid:
        return None


def _file_name(uuid: str) -> str:
    """A device's uuid as a file's name; it may hold anything, so nothing of it is trusted."""
    plain = "".join(c if c.isalnum() or c in "-_@" else "+" for c in uuid[:120])
    return f"c{plain}"
