"""New databases of units and contracts are copies of one that was migrated: to rename a dozen
tables takes SQLite longer than most tests take. Those of earlier forms are migrated as usual."""

import sqlite3
import threading

from andon.stores import sqlite_database
from andon.stores.sqlite_file import HISTORY_FILE, FileKind, in_memory, migrate

_made: dict[str, sqlite3.Connection] = {}
_copying = threading.Lock()


def _migrate(
    connection: sqlite3.Connection, kind: FileKind = HISTORY_FILE, until: int | None = None
) -> None:
    with _copying:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables or until is not None:
            migrate(connection, kind, until)
            return
        if kind.dialect not in _made:
            migrate(made := in_memory(), kind)
            _made[kind.dialect] = made
        _made[kind.dialect].backup(connection)


sqlite_database.migrate = _migrate  # type: ignore[attr-defined]
