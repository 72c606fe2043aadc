"""The index of runs: a small SQLite file."""

from pathlib import Path

from andon.runs.rules.matching import glob_of
from andon.stores.runs import REBUILD, RunTables
from andon.stores.sqlite_database import SqliteDatabase
from andon.stores.sqlite_file import FileKind

RUNS_FILE = FileKind("sqlite_runs", "index of runs", REBUILD)


class SqliteRunIndex(RunTables):
    """One file with its own connections."""

    no_limit = -1

    def __init__(self, path: Path, node: str = "") -> None:
        super().__init__(SqliteDatabase(path, node, kind=RUNS_FILE), str(path))

    def pattern(self, name: str) -> str:
        return glob_of(name)
