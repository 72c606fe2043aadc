"""History in one SQLite file."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from andon.history.rules.tiers import Tier, window
from andon.stores.history import HistoryTables
from andon.stores.session import TableSession
from andon.stores.sqlite_database import SqliteDatabase
from andon.stores.sqlite_file import used_bytes
from andon.stores.upkeep import RAW_WINDOW_MS

MOST_PAGES = 2000


class SqliteStore(HistoryTables):
    """Readings and usage intervals in one file; calls may come from any thread."""

    def __init__(self, path: Path, node: str = "", readonly: bool = False) -> None:
        super().__init__()
        self.place = str(path)
        self._database = SqliteDatabase(path, node, readonly, self._names.forget)

    def drop_oldest(self, share: float) -> None:
        """Drops this share of the time of the ticks that are not packed yet."""
        with self._transaction() as session:
            first, last = session.run("head_span", (session.node,)).fetchone()
            if first is not None:
                end = first + round((last - first) * share) + 1
                session.run("clear_head", (session.node, first, end))

    def compact(self, fully: bool = False) -> int:
        freed = self._vacuum(1 if fully else MOST_PAGES)
        while fully and (more := self._vacuum(1)):  # so that a writer need not wait for all of it
            freed += more
        if fully:
            # Moves the write-ahead log into the file, unless another process reads it now.
            with self._database.guarded() as session:
                session.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return freed

    def _unpacked(self, session: TableSession) -> Iterator[int]:
        """Yields the windows that have ticks, found without reading each tick."""
        at = -(1 << 62)
        while (found := session.run("oldest_head", (session.node, at)).fetchone()[0]) is not None:
            begin = window(Tier.RAW, found)
            yield begin
            at = begin + RAW_WINDOW_MS

    def _used_bytes(self, session: TableSession) -> int:
        return used_bytes(session.connection)

    def _vacuum(self, least_pages: int) -> int:
        """Returns some free pages to the file system, if there are so many; returns the bytes."""
        with self._database.guarded() as session:
            connection = session.connection
            free = _pragma(connection, "freelist_count")
            if free < least_pages:
                return 0
            connection.execute(f"PRAGMA incremental_vacuum({MOST_PAGES})").fetchall()
            gone = free - _pragma(connection, "freelist_count")
            return gone * _pragma(connection, "page_size")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    found: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found
