"""History in one SQLite file: a row per tick, packed after ten minutes into blocks."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from andon.history.rules.blocks import rows_between
from andon.history.rules.codec import SeriesRow, grouped
from andon.history.rules.intervals import JOIN_SECONDS, UsageInterval, joined
from andon.history.rules.series import Bucket, NodeReadings, buckets, scale_of
from andon.history.rules.tiers import (
    WINDOW_MS,
    DueRoll,
    Extent,
    Maintenance,
    StoreContents,
    StoredBlock,
    Tier,
    window,
)
from andon.model.device import Device
from andon.stores import sqlite_upkeep
from andon.stores.sqlite_database import Database
from andon.stores.sqlite_file import used_bytes
from andon.stores.sqlite_head import NameTable, find, pack_body, values_in
from andon.stores.statements import statements

SQL = statements("sqlite")


class SqliteStore:
    """Readings and usage intervals in one database; calls may come from any thread."""

    def __init__(self, path: Path, node: str = "", readonly: bool = False) -> None:
        self.place = str(path)
        self._names = NameTable()
        self._database = Database(path, node, readonly, self._names.forget)

    # Reading and writing.

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        names = self._names
        with self._transaction() as connection:
            names.describe(connection, devices)
            connection.executemany(SQL["put_head"], self._heads(connection, ticks))
            connection.executemany(
                SQL["put_usage"], [_use_row(names.device(connection, u.device), u) for u in uses]
            )

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        with self._database.reading() as connection:
            rows = list(self._rows(connection, device, metric, since, until, points))
        return buckets(rows, since, until, points, scale_of(metric))

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        near = {"uuid": device, "since": since - JOIN_SECONDS, "until": until + JOIN_SECONDS}
        with self._database.reading() as connection:
            rows = connection.execute(SQL["usage"], {**near, "node": self._node})
            found = [_use(row) for row in rows]
        return [use for use in joined(found) if use.last >= since and use.first < until]

    def size_bytes(self) -> int:
        return self._database.size_bytes()

    def close(self) -> None:
        self._database.close()

    def devices(self) -> Sequence[Device]:
        with self._database.reading() as connection:
            found = connection.execute(SQL["list_devices"], (self._node,)).fetchall()
        known = [
            Device(uuid, position, vendor, name)
            for _, uuid, position, vendor, name in found
            if position is not None
        ]
        return sorted(known, key=lambda device: (device.index, device.uuid))

    def metrics(self, device: str) -> Sequence[str]:
        with self._database.reading() as connection:
            rows = connection.execute(SQL["list_series"], (self._node,)).fetchall()
        return [metric for uuid, metric, _ in sorted(rows, key=lambda r: r[2]) if uuid == device]

    # Tiers.

    def contents(self) -> StoreContents:
        with self._database.reading() as connection:
            return StoreContents(
                tuple(_head_windows(connection, self._node)),
                _extents(connection, self._node),
                used_bytes(connection),
            )

    def load(self, devices: Sequence[Device], blocks: Iterable[StoredBlock]) -> None:
        names = self._names
        with self._transaction() as connection:
            names.describe(connection, devices)
            windows = set()
            for device, metric, tier, since, body in blocks:
                series = names.series(connection, device, metric)
                connection.execute(SQL["put_block"], (series, tier, since, body))
                windows.add((tier, since))
            for tier, since in windows:
                sqlite_upkeep.widen(connection, self._node, tier, since, since + WINDOW_MS[tier])

    def pack(self, begin: int) -> Maintenance:
        with self._transaction() as connection:
            return sqlite_upkeep.pack(connection, self._node, begin)

    def shorten(self, tier: Tier, now: int) -> Maintenance:
        with self._transaction() as connection:
            return sqlite_upkeep.shorten(connection, self._node, tier, now)

    def roll(self, due: DueRoll) -> Maintenance:
        """Rolls up a window; computed outside the transaction, which stays short: an ended
        window does not change.

        It uses the writing connection, because queries must not wait for this.
        """
        with self._database.guarded() as connection:
            made, damaged = sqlite_upkeep.rolled_blocks(connection, self._node, due.tier, due.begin)
        with self._transaction() as connection:
            return sqlite_upkeep.keep(connection, self._node, due, made, damaged)

    def delete(self, tier: Tier, before: int) -> Maintenance:
        with self._transaction() as connection:
            return sqlite_upkeep.delete(connection, self._node, tier, before)

    def forget(self, before: float) -> Maintenance:
        with self._transaction() as connection:
            return sqlite_upkeep.forget(connection, self._node, before)

    def drop_oldest(self, share: float) -> None:
        """Drops this share of the time of the ticks that are not packed yet."""
        with self._transaction() as connection:
            first, last = connection.execute(SQL["head_span"], (self._node,)).fetchone()
            if first is not None:
                end = first + round((last - first) * share) + 1
                connection.execute(SQL["clear_head"], (self._node, first, end))

    def compact(self, fully: bool = False) -> int:
        freed = self._vacuum(1 if fully else sqlite_upkeep.MOST_PAGES)
        while fully and (more := self._vacuum(1)):  # so that a writer need not wait for all of it
            freed += more
        if fully:
            with self._database.guarded() as connection:
                sqlite_upkeep.empty_journal(connection)
        return freed

    # Helpers.

    @property
    def _node(self) -> int:
        return self._database.node

    def _heads(
        self, connection: sqlite3.Connection, ticks: Sequence[NodeReadings]
    ) -> Iterator[tuple[int, int, int, bytes]]:
        for tick in ticks:
            if tick.readings:
                given = tuple([(device, metrics) for device, metrics, _ in tick.readings])
                known = self._names.layout(connection, given)
                values = [value for _, _, some in tick.readings for value in some]
                yield self._node, tick.at_ms, known.device, pack_body(known, values)

    def _rows(
        self,
        connection: sqlite3.Connection,
        device: str,
        metric: str,
        since: float,
        until: float,
        points: int,
    ) -> Iterator[SeriesRow]:
        node = self._node
        ids = find(connection, node, device, metric)
        if ids is None:
            return
        begin, end = round(since * 1000), round(until * 1000)
        step = (end - begin) / points
        yield from rows_between(
            begin,
            end,
            step,
            _extents(connection, node),
            lambda tier, *span: connection.execute(SQL["blocks"], (ids.series, tier, *span)),
        )
        found = connection.execute(SQL["heads"], (node, begin, end))
        yield from grouped(*values_in(found, ids.series), begin, step)

    def _vacuum(self, least_pages: int) -> int:
        with self._database.guarded() as connection:
            return sqlite_upkeep.vacuum(connection, least_pages)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits all changes of the block, or none."""
        with self._database.transaction() as connection:
            if not self._names.known:
                self._names.load(connection, self._node)
            yield connection


def _extents(connection: sqlite3.Connection, node: int) -> dict[Tier, Extent]:
    found = connection.execute(SQL["extents"], (node,)).fetchall()
    return {Tier(tier): Extent(since, until) for tier, since, until in found}


def _head_windows(connection: sqlite3.Connection, node: int) -> Iterator[int]:
    """The windows that have ticks, found without reading each tick."""
    at = -(1 << 62)
    while (found := connection.execute(SQL["oldest_head"], (node, at)).fetchone()[0]) is not None:
        begin = window(Tier.RAW, found)
        yield begin
        at = begin + sqlite_upkeep.RAW_WINDOW_MS


def _use_row(device: int, use: UsageInterval) -> dict[str, object]:
    return {
        "device": device,
        "pid": use.pid,
        "started": use.started or 0.0,
        "first": use.first,
        "last": use.last,
        "user": use.user,
        "name": use.name,
        "peak": use.peak_memory_bytes,
    }


def _use(
    row: tuple[str, int, float, str | None, str | None, float, float, int | None],
) -> UsageInterval:
    uuid, pid, started, user, name, first, last, peak = row
    return UsageInterval(uuid, pid, started or None, user, name, first, last, peak)
