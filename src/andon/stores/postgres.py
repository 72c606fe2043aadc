"""History in a PostgreSQL database, which any number of nodes may share."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from andon.errors import Conflict
from andon.history.rules.tiers import Maintenance, StoredBlock, Tier, window
from andon.model.device import Device
from andon.settings.store_url import StoreUrl
from andon.stores.head import cut_values, series_bytes
from andon.stores.history import Head, HistoryTables
from andon.stores.postgres_database import PostgresDatabase
from andon.stores.postgres_partitions import drop_partitions, make_partition, old_partitions
from andon.stores.session import TableSession

MEASURE_SECONDS = 600.0  # between two measurements of a node's blocks
VACUUM = "VACUUM (ANALYZE) block, use, unpacked"


class PostgresStore(HistoryTables):
    """Readings and usage intervals of one node; calls may come from any thread."""

    def __init__(
        self,
        url: StoreUrl,
        node: str,
        readonly: bool = False,
        shared: PostgresDatabase | None = None,
    ) -> None:
        """`shared` are connections that others use as well, and close."""
        super().__init__()
        self.place = str(url)
        self._hour: int | None = None  # whose partition is there
        self._used: tuple[float, int] | None = None
        if shared is None:
            self._postgres = PostgresDatabase(url, node, readonly, self._forget)
        else:
            self._postgres = shared.of_node(node, self._forget)
        self._database = self._postgres

    def load(self, devices: Sequence[Device], blocks: Iterable[StoredBlock]) -> None:
        super().load(devices, blocks)
        self._used = None

    def delete(self, tier: Tier, before: int) -> Maintenance:
        self._used = None
        return super().delete(tier, before)

    def compact(self, fully: bool = False) -> int:
        """Drops old partitions of all nodes; fully, it also vacuums the tables. Space within tables
        is reused rather than returned, as always in PostgreSQL."""
        freed = 0
        with suppress(Conflict):  # someone reads: next time
            freed = self._drop_partitions()
        if fully:
            before = self.size_bytes()
            self._postgres.vacuum(VACUUM)
            freed += max(0, before - self.size_bytes())
        return freed

    def _forget(self) -> None:
        self._names.forget()
        self._hour = None

    def _put_heads(self, session: TableSession, heads: Iterable[Head]) -> None:
        rows = list(heads)
        if not rows:
            return
        hour, written = session.run("next_write").fetchone()
        if hour != self._hour:
            make_partition(session, "head", hour)
            self._hour = hour
        windows = {window(Tier.RAW, at) for _, at, _, _ in rows}
        session.many("put_unpacked", [(session.node, since, written - 1) for since in windows])
        session.many(
            "put_head",
            [
                {
                    "hour": hour,
                    "node": node,
                    "since": window(Tier.RAW, at),
                    "at": at,
                    "device": device,
                    "written": written,
                    "body": body,
                }
                for node, at, device, body in rows
            ],
        )

    def _ticks(
        self, session: TableSession, series: int, begin: int, end: int
    ) -> tuple[list[int], list[int]]:
        """Reads the ticks, of which the server cuts out the values: a tick has some kilobytes."""
        found = session.run("cut_heads", (session.node, begin, end, series_bytes(series)))
        return cut_values(found.fetchall(), series)

    def _unpacked(self, session: TableSession) -> list[int]:
        return [since for (since,) in session.run("unpacked", (session.node,)).fetchall()]

    def _used_bytes(self, session: TableSession) -> int:
        """Returns the size of this node's blocks: the limit is for each node. They are measured
        rarely, because that reads them all."""
        now = time.monotonic()
        if self._used is None or now - self._used[0] > MEASURE_SECONDS:
            self._used = now, session.run("used_bytes", (session.node,)).fetchone()[0]
        return self._used[1]

    def _drop_partitions(self) -> int:
        with self._database.guarded() as session:
            hour, old = old_partitions(session, "head")
        if not old:
            return 0
        with self._transaction() as session:
            make_partition(session, "head", hour)
            return drop_partitions(session, "head", old, lambda name: MOVE.format(hour, name))


MOVE = """
INSERT INTO head SELECT {}, node, since, at, device, written, body
FROM {} JOIN unpacked USING (node, since) WHERE written > after
"""
"""Takes along what a node has not packed, such as one that ended in the middle of a window."""
