"""The SQLite file itself: opening it, migrating it, renaming a damaged one; its errors."""

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid, Unavailable
from andon.host import file_systems
from andon.host.files import make_private, make_private_file
from andon.stores.statements import migrations
from andon.units import sh


class FileKind(Struct, frozen=True):
    """The kind of a database: its migrations, its name for people, and what to do about errors."""

    dialect: str
    title: str
    hint: str


HISTORY_FILE = FileKind("sqlite", "history", "set ANDON_HISTORY to another file")
BUSY_SECONDS = 1.0  # with a longer wait, ticks would be dropped
CHECKPOINT_PAGES = 1000
ROOM_BYTES = 64 * 1024  # for the index of a write-ahead log, and a page of it
JOURNAL_BYTES = 16_000_000  # a write-ahead log that grew is truncated to this
PURPOSES = {
    "history": "",
    "history's log": "-wal",
    "history's index": "-shm",
    "history's journal": "-journal",
}
"""The files of a database by purpose, and how their names end."""
_PRIMARY = 0xFF  # the low byte of an extended code is its kind
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether the file itself is damaged."""
    return _kind(error) in _DAMAGED


def translated(error: sqlite3.Error, path: Path) -> AndonError:
    """Returns a SQLite error as one of andon's."""
    kind = _kind(error)
    is_full = kind in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) and _is_full(path)
    if kind == sqlite3.SQLITE_FULL or is_full:
        return Unavailable(f"{path}: the disk is full", hint="free some space, or: andon gc")
    shut = kind == sqlite3.SQLITE_CANTOPEN and not os.access(path.parent, os.W_OK)
    if shut or kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return Denied(f"{path} cannot be written", hint="check its owner and the file system")
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Conflict(f"{path} is locked by another process", hint=f"fuser {sh(path)}")
    if kind in _DAMAGED:
        return Unavailable(f"{path} is damaged: {error}")
    if str(error).startswith("no such "):  # a table or a column
        return Unavailable(
            f"{path} is damaged, or from an older andon: {error}",
            hint="andon serve upgrades it, or sets it aside",
        )
    return Unavailable(f"{path}: {error}")


def connect(path: Path, readonly: bool = False) -> sqlite3.Connection:
    """Returns a connection without implicit BEGIN; raises sqlite3.Error.

    SQLite never creates the file: it would follow a link, and let others read it.
    """
    if readonly:
        return _opened(f"{path.absolute().as_uri()}?mode=ro")
    make_private_file(path)
    connection = _opened(f"{path.absolute().as_uri()}?mode=rw")
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first page is written
        if needs_rollback_journal(path, file_systems.read_mounts()):
            _use_rollback_journal(connection)
        else:
            _use_write_ahead_log(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def in_memory() -> sqlite3.Connection:
    """Returns a new database without a file."""
    connection = _opened(":memory:")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    return connection


def used_bytes(connection: sqlite3.Connection) -> int:
    """Returns the size in use, without free pages."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def is_unwritten(path: Path) -> bool:
    """Whether nothing was ever written: the file is new, or the disk was full."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False  # the next reader gets the reason


def untouched(path: Path) -> sqlite3.Connection:
    """Returns a connection that creates no lock, log or index beside the file."""
    return _opened(f"{path.absolute().as_uri()}?mode=ro&immutable=1")


def needs_rollback_journal(path: Path, mounts: str) -> bool:
    """Whether the file is on a network: a write-ahead log needs memory that all users share."""
    return file_systems.network_system(path.parent.resolve(), mounts) is not None


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Turns the write-ahead log on; retries, because SQLite refuses at once while another
    process does this to a new file."""
    until = time.monotonic() + BUSY_SECONDS / 2
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as exc:
            if _kind(exc) != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(0.005)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_BYTES}")


def _use_rollback_journal(connection: sqlite3.Connection) -> None:
    """Turns the rollback journal on, also for a file with a write-ahead log: with exclusive
    locks it is read without shared memory, written back, and the log is removed."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("PRAGMA locking_mode = NORMAL")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # releases the lock
    connection.execute("PRAGMA synchronous = FULL")


def _opened(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
    )


def migrate(
    connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE, until: int | None = None
) -> None:
    """Brings the database up to date, or to an earlier schema; each step is one transaction."""
    version = version_of(connection)
    for number, step in enumerate(migrations(kind.dialect)[version:until], version + 1):
        with committed(connection):
            if version_of(connection) < number:  # another part of andon may have been first
                for statement in _statements(step):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")


@contextmanager
def committed(connection: sqlite3.Connection) -> Iterator[None]:
    """Commits all changes of the block, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.rollback()
        raise


# The nodes of a file. That in a machine's own folder has one without a name: it is the machine that
# uses the file, whatever its name is now.


def find_node(connection: sqlite3.Connection, name: str) -> int | None:
    """Returns the number of a node. A file of one node answers for it under any name if either
    name is empty."""
    known = dict(connection.execute("SELECT name, id FROM node").fetchall())
    alone = len(known) == 1 and ("" in known or not name)
    found: int | None = next(iter(known.values())) if alone else known.get(name)
    return found


def claim_node(connection: sqlite3.Connection, name: str) -> int:
    """Returns the number of a node. One that is new gets a number, or that of the node without a
    name if there is no other."""
    found = connection.execute("SELECT id FROM node WHERE name = ?", (name,)).fetchone()
    if found is not None:
        return int(found[0])
    with committed(connection):
        number = find_node(connection, name)
        if number is None:
            added = connection.execute("INSERT INTO node (name) VALUES (?)", (name,))
            return int(added.lastrowid or 0)
        if name:
            connection.execute("UPDATE node SET name = ? WHERE id = ?", (name, number))
        return number


def refuse_newer(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Raises Invalid for a file that a newer version of andon has migrated."""
    version, known = version_of(connection), len(migrations(kind.dialect))
    if version > known:
        raise Invalid(
            f"the {kind.title} was written by a newer andon (format {version}, known: {known})",
            hint=f"upgrade andon, or {kind.hint}",
        )


def _statements(script: str) -> Iterator[str]:
    """Yields statements one by one: `executescript` would commit first."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def version_of(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def move_damaged(path: Path, at: float | None = None) -> Path:
    """Renames a damaged database with its log or journal, which must not be applied to the next
    file. Nothing is ever deleted."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() if at is None else at))
    target = path.with_name(f"{path.name}.corrupt-{stamp}")
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.corrupt-{stamp}-{number}")
    for part, moved in zip(parts(path), parts(target), strict=True):
        if part.exists():
            part.rename(moved)
    return target


def parts(path: Path) -> tuple[Path, ...]:
    """Returns the paths of the database and of the files that SQLite may keep beside it."""
    return tuple(Path(f"{path}{ending}") for ending in PURPOSES.values())


def length(part: Path) -> int:
    """Returns a file's size; 0 if it does not exist: SQLite may remove it at any time."""
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0


def make_file(path: Path, kind: FileKind = HISTORY_FILE) -> None:
    """Creates an empty file in its directory, both private to their owner: usage is private.

    SQLite creates the files next to it with the same mode.
    """
    try:
        make_private(path.parent)
        make_private_file(path)
        if path.is_symlink() and not path.exists():
            raise FileNotFoundError(errno.ENOENT, "a link to a file that does not exist")
    except PermissionError as exc:
        raise Denied(f"{path} cannot be created", hint=kind.hint) from exc
    except OSError as exc:
        raise Unavailable(f"{path}: {exc.strerror}") from exc
    identity(path)


def identity(path: Path) -> tuple[int, int]:
    """Returns device and inode of the file at this path; never opens it, as a pipe would block."""
    try:
        found = path.stat()
    except FileNotFoundError as exc:
        raise Gone(f"there is no {path}") from exc
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            reason = f"{str(path)[:40]!r}… is too long for a path"
            raise Invalid(reason, hint="set ANDON_HISTORY to a shorter one") from exc
        raise Unavailable(f"{path}: {exc.strerror}") from exc
    if not stat.S_ISREG(found.st_mode):
        raise Unavailable(f"{path} is not a regular file")
    return found.st_dev, found.st_ino


def _is_full(path: Path) -> bool:
    """Whether the disk is full: SQLite reports `disk I/O error` if a log or an index beside the
    file has no room."""
    try:
        found = os.statvfs(path.parent)
    except (OSError, AttributeError):
        return False
    return found.f_bavail * found.f_frsize < ROOM_BYTES or found.f_files > 0 == found.f_favail


def _kind(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", None) or 0
    return code & _PRIMARY
