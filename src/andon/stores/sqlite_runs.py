"""The index of runs: a small SQLite file."""

from pathlib import Path
from sqlite3 import Connection

from andon.errors import Unavailable
from andon.runs.rules.matching import glob_of
from andon.stores.runs import REBUILD, RunTables, read_row, write_row
from andon.stores.session import TableSession
from andon.stores.sqlite_database import SqliteDatabase
from andon.stores.sqlite_file import FileKind
from andon.stores.statements import statements


class SqliteRunIndex(RunTables):
    """One file with its own connections."""

    no_limit = -1

    def __init__(self, path: Path, node: str = "") -> None:
        super().__init__(SqliteDatabase(path, node, kind=RUNS_FILE), str(path))

    def pattern(self, name: str) -> str:
        return glob_of(name)


def _fill(connection: Connection) -> None:
    """Fills the columns that came with the second form. What cannot be read is dropped: its
    record is found again."""
    session = TableSession(connection, statements("sqlite_runs"), 0)
    for node, run, body in connection.execute("SELECT node, id, body FROM runs").fetchall():
        try:
            write_row(session, node, read_row(body))
        except Unavailable:
            session.run("drop", (node, run))


RUNS_FILE = FileKind("sqlite_runs", "index of runs", REBUILD, {2: _fill})
