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
from andon.stores.session import TableSession

KEPT_HOURS = 2  # of partitions with ticks: what is packed later is moved
MEASURE_SECONDS = 600.0  # between two measurements of a node's blocks
VACUUM = "VACUUM (ANALYZE) block, use, unpacked, extent, episode, outbox, runs, run_tags"


class PostgresStore(HistoryTables):
    """Readings and usage intervals of one node; calls may come from any thread."""

    def __init__(self, url: StoreUrl, node: str, readonly: bool = False) -> None:
        super().__init__()
        self.place = str(url)
        self._hour: int | None = None  # whose partition is there
        self._used: tuple[float, int] | None = None
        self._postgres = PostgresDatabase(url, node, readonly, self._forget)
        self._database = self._postgres

    def load(self, devices: Sequence[Device], blocks: Iterable[StoredBlock]) -> None:
        super().load(devices, blocks)
        self._used = None

    def delete(self, tier: Tier, before: int) -> Maintenance:
        self._used = None
        return super().delete(tier, before)

    def compact(self, fully: bool = False) -> int:
        """Drops old partitions, of all nodes; fully, it also tidies the tables. Other space is
        used again rather than returned: that is PostgreSQL's own work."""
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
            _make_partition(session, hour)
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
        """Lets the server cut out the values: a whole tick has some kilobytes."""
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
            hour, names = _partitions(session)
        old = [name for name in names if int(name.removeprefix("head_")) <= hour - KEPT_HOURS]
        if not old:
            return 0
        with self._transaction() as session:
            freed = 0
            session.execute("SET LOCAL lock_timeout = '1s'")
            _make_partition(session, hour)
            session.execute("LOCK TABLE head IN ACCESS EXCLUSIVE MODE")
            for name in set(old).intersection(_partitions(session)[1]):
                freed += session.run("size_of", (name,)).fetchone()[0]
                session.execute(MOVE.format(hour=hour, name=name))
                session.execute(f"DROP TABLE {name}")
            return freed


MOVE = """
INSERT INTO head SELECT {hour}, node, since, at, device, written, body
FROM {name} JOIN unpacked USING (node, since) WHERE written > after
"""
"""Takes along what a node has not packed, such as one that ended in the middle of a window."""


def _make_partition(session: TableSession, hour: int) -> None:
    """Makes the partition of an hour if no one has. Attached and not created as a partition: that
    would wait for everyone who reads."""
    session.run("lock_partitions")
    name = f"head_{hour}"
    if name not in _partitions(session)[1]:
        session.execute(f"CREATE TABLE {name} (LIKE head INCLUDING STORAGE)")
        attach = f"ALTER TABLE head ATTACH PARTITION {name} FOR VALUES IN ({hour})"
        session.execute(attach)


def _partitions(session: TableSession) -> tuple[int, list[str]]:
    """Returns the present hour, by the clock of the server, and the names of all partitions."""
    found = session.run("partitions").fetchone()
    return found[0], found[1]
