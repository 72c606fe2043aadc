"""One SQLite file and its two connections: transactions, queries, and recovery from damage."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.stores import sqlite_file
from andon.stores.session import TableSession
from andon.stores.sqlite_file import (
    HISTORY_FILE,
    FileKind,
    claim_node,
    committed,
    find_node,
    migrate,
    refuse_newer,
    untouched,
)
from andon.stores.statements import migrations, statements

# Whether a database has exactly the tables that the migrations create.

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
Form = dict[str, frozenset[str]]


class Incomplete(sqlite3.DatabaseError):
    """A table or column is missing although the file's version says it is up to date."""


def check_complete(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Raises Incomplete if a table or column of the migrations is missing."""
    found = _form(connection)
    for table, columns in _forms(kind)[-1].items():
        if table not in found:
            raise Incomplete(f"no such table: {table}")
        if missing := columns - found[table]:
            raise Incomplete(f"no such column: {table}.{min(missing)}")


def bring_up_to_date(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Migrates the file and checks the result; raises Incomplete if that fails."""
    refuse_newer(connection, kind)
    refuse_foreign(connection, kind)
    try:
        migrate(connection, kind)
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # locked, full, or read-only
            raise
        raise Incomplete(str(exc)) from exc
    check_complete(connection, kind)


def refuse_untouched(path: Path, kind: FileKind = HISTORY_FILE) -> None:
    """Raises Invalid for the file of a newer andon or of another program, before writing to it. Its
    log is not read; a file that cannot be read without it is left to the usual checks."""
    with suppress(sqlite3.Error), closing(untouched(path)) as connection:
        refuse_newer(connection, kind)
        refuse_foreign(connection, kind)


def refuse_foreign(connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE) -> None:
    """Raises Invalid for a file with another program's tables."""
    foreign = sorted(_names(connection) - {name for form in _forms(kind) for name in form})
    if foreign:
        raise Invalid(
            f"the {kind.title} file is another program's database: "
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


_MADE: dict[str, list[Form]] = {}


def _forms(kind: FileKind) -> list[Form]:
    """Returns the current schema and each earlier one: a later one may have renamed a table.
    Created in memory once, so that they cannot differ from the migrations."""
    if kind.dialect not in _MADE:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            found = list[Form]()
            for number in range(1, len(migrations(kind.dialect)) + 1):
                migrate(connection, kind, number)
                found.append(_form(connection))
        _MADE[kind.dialect] = found
    return _MADE[kind.dialect]


log = logging.getLogger("andon.history")

IN_MEMORY = Path(":memory:")
"""A database without a file: one connection both reads and writes, and closing keeps it."""

_MOVING = threading.Lock()
"""Several parts of one process may use one file and find it damaged at the same time."""


class SqliteDatabase:
    """One writing connection and one reading one; each may be used from any thread."""

    def __init__(
        self,
        path: Path,
        node: str = "",
        readonly: bool = False,
        forget: Callable[[], None] | None = None,
        kind: FileKind = HISTORY_FILE,
    ) -> None:
        """`forget` is called when cached values of the file may no longer be true."""
        self.path, self._name, self._kind = path, node, kind
        self.node = 0  # its number in the file that is open now
        self._readonly, self._forget = readonly, forget or _nothing
        self._in_memory, self._writing = path == IN_MEMORY, threading.RLock()
        self._reading = self._writing if self._in_memory else threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._open()

    @contextmanager
    def transaction(self) -> Iterator[TableSession]:
        """Commits all changes of the block, or none."""
        with self.guarded() as session:
            try:
                with committed(session.connection):
                    yield session
            except BaseException:
                self._forget()
                raise

    @contextmanager
    def guarded(self) -> Iterator[TableSession]:
        """Yields the writing connection to the file that is at the path now."""
        with self._writing:
            try:
                yield self._session(self._present())
            except sqlite3.Error as exc:
                raise self._failed(exc) from exc

    @contextmanager
    def reading(self) -> Iterator[TableSession]:
        """Yields one consistent view of the file, whatever is written meanwhile."""
        with self._reading:
            try:
                reader = self._reader = self._reader or self._connected()
                reader.execute("BEGIN")
                try:
                    yield self._session(reader)
                finally:
                    with suppress(sqlite3.Error):
                        reader.rollback()
            except sqlite3.Error as exc:
                error = exc
            else:
                return
        raise self._failed(error) from error

    def size_bytes(self) -> int:
        if self._in_memory:
            with self.guarded() as session:
                return sqlite_file.used_bytes(session.connection)
        return sum(sqlite_file.length(part) for part in sqlite_file.parts(self.path))

    def close(self) -> None:
        if not self._in_memory:
            with self._writing, self._reading:
                self._disconnect()

    def _session(self, connection: sqlite3.Connection) -> TableSession:
        return TableSession(connection, statements(self._kind.dialect), self.node)

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

    def _connected(self) -> sqlite3.Connection:
        reader = sqlite_file.connect(self.path, True)
        if not self._readonly:
            return reader
        try:
            refuse_newer(reader, self._kind)
            found = find_node(reader, self._name)
            if found is None:
                names = [name for (name,) in reader.execute("SELECT name FROM node ORDER BY name")]
                raise Gone(
                    f"{self.path} has nothing of the node {self._name or 'that this machine is'}",
                    hint=f"name one that it has with ANDON_NODE: {', '.join(names)}",
                )
        except BaseException:
            reader.close()
            raise
        self.node = found
        return reader

    def _has_changed(self) -> bool:
        try:
            return not self._in_memory and sqlite_file.identity(self.path) != self._identity
        except Gone:
            return True

    def _open(self) -> None:
        if self._readonly:
            self._identity = sqlite_file.identity(self.path)  # raises Gone
            if sqlite_file.is_unwritten(self.path):
                raise Gone(f"{self.path} is empty")
            with self.reading():  # raises Gone without this node
                return
        try:
            self._begin()
        except sqlite3.Error as exc:
            self._disconnect()
            if not (isinstance(exc, Incomplete) or sqlite_file.is_damaged(exc)):
                raise sqlite_file.translated(exc, self.path) from exc
            self._replace_damaged()
        except AndonError:
            self._disconnect()
            raise

    def _begin(self) -> None:
        if self._in_memory:
            self._reader = self._writer = sqlite_file.in_memory()
        else:
            sqlite_file.make_file(self.path, self._kind)
            refuse_untouched(self.path, self._kind)
            self._writer = sqlite_file.connect(self.path)
        bring_up_to_date(self._writer, self._kind)
        self.node = claim_node(self._writer, self._name)
        self._forget()
        self._identity = (0, 0) if self._in_memory else sqlite_file.identity(self.path)

    def _replace_damaged(self) -> None:
        try:
            moved = sqlite_file.move_damaged(self.path)
            self._begin()
        except sqlite3.Error as exc:
            self._disconnect()
            raise sqlite_file.translated(exc, self.path) from exc
        except OSError as exc:
            raise Unavailable(f"{self.path} is damaged and cannot be moved aside: {exc}") from exc
        log.warning("%s was damaged: moved to %s, and a new file was started", self.path, moved)

    def _failed(self, error: sqlite3.Error) -> AndonError:
        """The error; a damaged file is replaced by a new one, and the caller may then retry."""
        failure = sqlite_file.translated(error, self.path)
        if sqlite_file.is_damaged(error) and not self._readonly:
            with self._writing, self._reading, _MOVING:
                replaced = self._has_changed()  # by another part that found the damage first
                self._disconnect()
                if not replaced:
                    self._replace_damaged()
        elif not isinstance(failure, Conflict) and not self._in_memory:
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


def _nothing() -> None:
    """Does nothing; for a database without a cache."""
