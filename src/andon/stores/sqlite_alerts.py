"""Alerts in the SQLite file of the history."""

from pathlib import Path

from andon.stores.alerts import AlertTables
from andon.stores.sqlite_database import SqliteDatabase


class SqliteAlertStore(AlertTables):
    """Part of the history file, with its own connections."""

    def __init__(self, path: Path, node: str = "") -> None:
        super().__init__(SqliteDatabase(path, node))
