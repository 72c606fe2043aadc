"""Whether a database has exactly the tables that the migrations create."""

import sqlite3
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path

from andon.errors import Invalid
from andon.stores.sqlite_file import HISTORY_FILE, FileKind, migrate, refuse_newer, untouched
from andon.stores.statements import migrations

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
    """Raise Invalid for a newer andon's file or another program's, before anything is written to
    it: as it is on disk, without its log. What cannot be read so is for the usual way to judge."""
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
    """Created once in memory, so that it cannot differ from the migrations."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, migrations(dialect))
        return _form(connection)


@lru_cache
def _ours(dialect: str) -> frozenset[str]:
    """Every table that this or an earlier form has: a later one may have renamed it."""
    steps = migrations(dialect)
    found: set[str] = set()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for count in range(1, len(steps) + 1):
            migrate(connection, steps[:count])
            found |= _names(connection)
    return frozenset(found)
