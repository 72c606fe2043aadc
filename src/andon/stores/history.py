"""History in the tables of a database: a row per tick, packed after ten minutes into blocks."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

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
)
from andon.model.device import Device
from andon.stores import upkeep
from andon.stores.head import NameTable, find, pack_body, values_in
from andon.stores.session import Database, TableSession

Head = tuple[int, int, int, bytes]
"""A tick as a row: node, time, first device, series and values."""


class HistoryTables:
    """Readings and usage intervals in a database; calls may come from any thread."""

    place: str
    _database: Database

    def __init__(self) -> None:
        """A subclass also sets its place and its database, which forgets the names with it."""
        self._names = NameTable()

    # Reading and writing.

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        names = self._names
        with self._transaction() as session:
            names.describe(session, devices)
            self._put_heads(session, self._heads(session, ticks))
            rows = [_use_row(names.device(session, use.device), use) for use in uses]
            session.many("put_usage", rows)

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        with self._database.reading() as session:
            rows = list(self._rows(session, device, metric, since, until, points))
        return buckets(rows, since, until, points, scale_of(metric))

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        near = {"uuid": device, "since": since - JOIN_SECONDS, "until": until + JOIN_SECONDS}
        with self._database.reading() as session:
            rows = session.run("usage", {**near, "node": session.node})
            found = [_use(row) for row in rows]
        return [use for use in joined(found) if use.last >= since and use.first < until]

    def size_bytes(self) -> int:
        return self._database.size_bytes()

    def close(self) -> None:
        self._database.close()

    def devices(self) -> Sequence[Device]:
        with self._database.reading() as session:
            found = session.run("list_devices", (session.node,)).fetchall()
        known = [
            Device(uuid, position, vendor, name)
            for _, uuid, position, vendor, name in found
            if position is not None
        ]
        return sorted(known, key=lambda device: (device.index, device.uuid))

    def metrics(self, device: str) -> Sequence[str]:
        with self._database.reading() as session:
            rows = session.run("list_series", (session.node,)).fetchall()
        return [metric for uuid, metric, _ in sorted(rows, key=lambda r: r[2]) if uuid == device]

    # Tiers.

    def contents(self) -> StoreContents:
        with self._database.reading() as session:
            return StoreContents(
                tuple(self._unpacked(session)),
                _extents(session),
                self._used_bytes(session),
            )

    def load(self, devices: Sequence[Device], blocks: Iterable[StoredBlock]) -> None:
        names = self._names
        with self._transaction() as session:
            names.describe(session, devices)
            given = list(blocks)
            names.add(session, [(device, metric) for device, metric, *_ in given])
            rows = {
                (names.series(device, metric), int(tier), since): body
                for device, metric, tier, since, body in given
            }
            session.many("put_block", [(*place, body) for place, body in rows.items()])
            for tier, since in {(tier, since) for _, _, tier, since, _ in given}:
                if tier is Tier.RAW:  # a finished block has every tick of its window
                    end = since + WINDOW_MS[tier]
                    session.put("clear_head", (session.node, since, end))
                upkeep.widen(session, tier, since, since + WINDOW_MS[tier])

    def blocks(self, tier: Tier, since: int) -> Sequence[StoredBlock]:
        with self._database.reading() as session:
            rows = session.run("list_series", (session.node,)).fetchall()
            names = {series: (device, metric) for device, metric, series in rows}
            found = session.run("window_blocks", (session.node, tier, since)).fetchall()
        return [(*names[series], tier, since, bytes(body)) for series, body in found]

    def pack(self, begin: int) -> Maintenance:
        with self._transaction() as session:
            return upkeep.pack(session, begin)

    def shorten(self, tier: Tier, now: int) -> Maintenance:
        with self._transaction() as session:
            return upkeep.shorten(session, tier, now)

    def roll(self, due: DueRoll) -> Maintenance:
        """Rolls up a window; computed outside the transaction, which stays short: an ended
        window does not change.

        It uses the writing connection, because queries must not wait for this.
        """
        with self._database.guarded() as session:
            made, damaged = upkeep.rolled_blocks(session, due.tier, due.begin)
        with self._transaction() as session:
            return upkeep.keep(session, due, made, damaged)

    def delete(self, tier: Tier, before: int) -> Maintenance:
        with self._transaction() as session:
            return upkeep.delete(session, tier, before)

    def forget(self, before: float) -> Maintenance:
        with self._transaction() as session:
            return upkeep.forget(session, before)

    # Helpers.

    def _put_heads(self, session: TableSession, heads: Iterable[Head]) -> None:
        session.many("put_head", heads)

    def _ticks(
        self, session: TableSession, series: int, begin: int, end: int
    ) -> tuple[list[int], list[int]]:
        """Returns times and values of a series that are not packed yet."""
        return values_in(session.run("heads", (session.node, begin, end)), series)

    def _unpacked(self, session: TableSession) -> Iterable[int]:
        """Returns the windows that have unpacked ticks."""
        raise NotImplementedError

    def _used_bytes(self, session: TableSession) -> int:
        """Returns the size that counts against the limit, without free space."""
        raise NotImplementedError

    def _heads(self, session: TableSession, ticks: Sequence[NodeReadings]) -> Iterator[Head]:
        for tick in ticks:
            if tick.readings:
                given = tuple([(device, metrics) for device, metrics, _ in tick.readings])
                known = self._names.layout(session, given)
                values = [value for _, _, some in tick.readings for value in some]
                yield session.node, tick.at_ms, known.device, pack_body(known, values)

    def _rows(
        self,
        session: TableSession,
        device: str,
        metric: str,
        since: float,
        until: float,
        points: int,
    ) -> Iterator[SeriesRow]:
        ids = find(session, device, metric)
        if ids is None:
            return
        begin, end = round(since * 1000), round(until * 1000)
        step = (end - begin) / points
        yield from rows_between(
            begin,
            end,
            step,
            _extents(session),
            lambda tier, *span: session.run("blocks", (ids.series, tier, *span)),
        )
        yield from grouped(*self._ticks(session, ids.series, begin, end), begin, step)

    @contextmanager
    def _transaction(self) -> Iterator[TableSession]:
        """Commits all changes of the block, or none."""
        with self._database.transaction() as session:
            if not self._names.known:
                self._names.load(session)
            yield session


def _extents(session: TableSession) -> dict[Tier, Extent]:
    found = session.run("extents", (session.node,)).fetchall()
    return {Tier(tier): Extent(since, until) for tier, since, until in found}


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
