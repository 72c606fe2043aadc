"""One SQLite file and its two connections: transactions, queries, and recovery from damage."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.stores import sqlite_file
from andon.stores.sqlite_file import HISTORY_FILE, FileKind, migrate, refuse_newer, untouched
from andon.stores.statements import migrations

# Whether a database has exactly the tables that the migrations create.

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
Form = dict[str, frozenset[str]]


class Incomplete(sqlite3.DatabaseError):
    """A table or column is missing although the file's version says it is up to date."""


def check_complete(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Raise Incomplete where a table or column of the migrations is missing."""
    found = _form(connection)
    for table, columns in _wanted(kind.dialect).items():
        if table not in found:
            raise Incomplete(f"no such table: {table}")
        if missing := columns - found[table]:
            raise Incomplete(f"no such column: {table}.{min(missing)}")


def bring_up_to_date(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Migrate and check the result; raises Incomplete where that fails."""
    refuse_newer(connection, kind)
    refuse_foreign(connection, kind)
    try:
        migrate(connection, migrations(kind.dialect))
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # locked, full, or read-only
            raise
        raise Incomplete(str(exc)) from exc
    check_complete(connection, kind)


def refuse_untouched(path: Path, kind: FileKind = HISTORY_FILE) -> None:
    """Raises Invalid for a newer andon's file or another program's, before anything is written
    to it: as it is on disk, without its log. A file that cannot be read this way is left to the
    usual checks."""
    with suppress(sqlite3.Error), closing(untouched(path)) as connection:
        refuse_newer(connection, kind)
        refuse_foreign(connection, kind)


def refuse_foreign(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Raise Invalid for a file with another program's tables."""
    foreign = sorted(_names(connection) - _ours(kind.dialect))
    if foreign:
        raise Invalid(
            f"the {kind.words} file is another program's database: "
            f"it has a table {foreign[0][:40]!r}",
            hint=kind.hint,
        )


def _form(connection: sqlite3.Connection) -> Form:
    return {name: _columns(connection, name) for name in _names(connection)}


def _names(connection: sqlite3.Connection) -> set[str]:
    return {str(name) for (name,) in connection.execute(_TABLES)}


def _columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return frozenset(str(name) for (name,) in rows)


@lru_cache
def _wanted(dialect: str) -> Form:
    """The expected form, created in memory once, so that it cannot differ from the migrations."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, migrations(dialect))
        return _form(connection)


@lru_cache
def _ours(dialect: str) -> frozenset[str]:
    """Returns every table that this or an earlier form has: a later one may have renamed it."""
    steps = migrations(dialect)
    found: set[str] = set()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for count in range(1, len(steps) + 1):
            migrate(connection, steps[:count])
            found |= _names(connection)
    return frozenset(found)


log = logging.getLogger("andon.history")

_MOVING = threading.Lock()
"""Several parts of one process may use one file and find it damaged at the same time."""


class Database:
    """One writing connection and one reading one; each may be used from any thread."""

    def __init__(
        self,
        path: Path,
        readonly: bool = False,
        forget: Callable[[], None] | None = None,
        kind: sqlite_file.FileKind = sqlite_file.HISTORY_FILE,
    ) -> None:
        """`forget` is called when cached values of the file may no longer be true."""
        self.path, self._kind = path, kind
        self._readonly, self._forget = readonly, forget or _nothing
        self._writing, self._reading = threading.RLock(), threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._open()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits all changes of the block, or none."""
        with self.guarded() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._forget()
                with suppress(sqlite3.Error):
                    connection.rollback()
                raise

    @contextmanager
    def guarded(self) -> Iterator[sqlite3.Connection]:
        """Yields the writing connection to the file that is at the path now."""
        with self._writing:
            try:
                yield self._present()
            except sqlite3.Error as exc:
                raise self._failed(exc) from exc

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields one consistent view of the file, whatever is written meanwhile."""
        with self._reading:
            try:
                reader = self._reader = self._reader or sqlite_file.connect(self.path, True)
                reader.execute("BEGIN")
                try:
                    yield reader
                finally:
                    with suppress(sqlite3.Error):
                        reader.rollback()
            except sqlite3.Error as exc:
                error = exc
            else:
                return
        raise self._failed(error) from error

    def size_bytes(self) -> int:
        return sum(sqlite_file.length(part) for part in sqlite_file.parts(self.path))

    def close(self) -> None:
        with self._writing, self._reading:
            self._disconnect()

    def _present(self) -> sqlite3.Connection:
        if self._readonly:
            raise Unavailable(f"{self.path} was opened read-only")
        if self._writer is None or self._has_changed():
            with self._reading:
                self._disconnect()
                self._open()
        if self._writer is None:
            raise Unavailable(f"{self.path} cannot be opened")
        return self._writer

    def _has_changed(self) -> bool:
        try:
            return sqlite_file.identity(self.path) != self._identity
        except Gone:
            return True

    def _open(self) -> None:
        if self._readonly:
            self._identity = sqlite_file.identity(self.path)  # raises Gone
            if sqlite_file.is_unwritten(self.path):
                raise Gone(f"{self.path} is empty")
            return
        try:
            self._begin()
        except sqlite3.Error as exc:
            self._disconnect()
            if not _is_damaged(exc):
                raise sqlite_file.translated(exc, self.path) from exc
            self._set_aside()
        except AndonError:
            self._disconnect()
            raise

    def _begin(self) -> None:
        sqlite_file.make_file(self.path, self._kind)
        refuse_untouched(self.path, self._kind)
        self._writer = sqlite_file.connect(self.path)
        bring_up_to_date(self._writer, self._kind)
        self._forget()
        self._identity = sqlite_file.identity(self.path)

    def _set_aside(self) -> None:
        try:
            aside = sqlite_file.move_aside(self.path)
            self._begin()
        except sqlite3.Error as exc:
            self._disconnect()
            raise sqlite_file.translated(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"{self.path} is damaged and cannot be moved aside: {exc}") from exc
        log.warning("%s was damaged: moved to %s, and a new file was started", self.path, aside)

    def _failed(self, error: sqlite3.Error) -> AndonError:
        """The error; a damaged file is replaced by a new one, and the caller may then retry."""
        failure = sqlite_file.translated(error, self.path)
        if sqlite_file.is_damaged(error) and not self._readonly:
            with self._writing, self._reading, _MOVING:
                replaced = self._has_changed()  # by another part that found the damage first
                self._disconnect()
                if not replaced:
                    self._set_aside()
        elif not isinstance(failure, Conflict):
            # A connection to a read-only or removed file never recovers.
            with self._writing, self._reading:
                self._disconnect()
        return failure

    def _disconnect(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                with suppress(sqlite3.Error), closing(connection):
                    pass
        self._reader = self._writer = None


def _is_damaged(error: sqlite3.Error) -> bool:
    return isinstance(error, Incomplete) or sqlite_file.is_damaged(error)


def _nothing() -> None:
    """Does nothing: there is nothing to forget."""
