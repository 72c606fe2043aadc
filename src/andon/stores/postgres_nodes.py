"""The nodes of a hub and their heartbeats in a PostgreSQL database."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter

from andon.errors import Conflict
from andon.fleet.rules.nodes import FleetNode, Heartbeat, NamedToken
from andon.history.rules.blocks import rows_of
from andon.history.rules.codec import SeriesRow
from andon.history.rules.series import Bucket, buckets, scale_of
from andon.history.rules.tiers import Tier, window
from andon.settings.store_url import StoreUrl
from andon.stores.alerts import AlertTables
from andon.stores.postgres import PostgresStore
from andon.stores.postgres_database import PostgresDatabase, PostgresSession
from andon.stores.postgres_partitions import drop_partitions, make_partition, old_partitions
from andon.stores.postgres_runs import PostgresRunIndex
from andon.stores.session import TableSession

HUB = "@hub"  # the name under which a hub itself has rows; no node can have it
SWEEP_SECONDS = 60.0


class PostgresNodeStore:
    """Nodes and heartbeats in the database of their history; calls may come from any thread."""

    def __init__(self, url: StoreUrl) -> None:
        self._swept_at = float("-inf")  # for heartbeats whose time is over
        self._hour: int | None = None  # whose partition is there
        self._database = PostgresDatabase(url, HUB, forget=self._forget)

    def nodes(self) -> Sequence[FleetNode]:
        with self._database.reading() as session:
            return [FleetNode(*row) for row in session.run("fleet_nodes").fetchall()]

    def put(self, node: FleetNode) -> None:
        with self._database.transaction() as session:
            session.put("add_node", (node.name,))
            facts = {name: getattr(node, name) for name in _FACTS}
            session.put("put_fleet_node", facts)

    def remove(self, name: str) -> bool:
        with self._database.transaction() as session:
            return bool(session.run("remove_fleet_node", (name,)).rowcount)

    def take(self, heartbeats: Sequence[Heartbeat]) -> Sequence[Heartbeat]:
        self._drop_old()
        with self._database.transaction() as session:
            assert isinstance(session, PostgresSession)
            names = sorted({beat.node for beat in heartbeats})
            found = session.run("reporters", (names,)).fetchall()
            known = {name: (node, run, sequence) for name, node, run, sequence, _ in found}
            new, last = list[Heartbeat](), dict[int, Heartbeat]()
            for beat in heartbeats:
                if beat.node not in known:
                    continue
                node, run, sequence = known[beat.node]
                if run != beat.session:
                    sequence = session.run("last_of_session", (node, beat.session)).fetchone()[0]
                if beat.sequence <= sequence:
                    continue
                known[beat.node] = node, beat.session, beat.sequence
                last[node] = beat
                new.append(beat)
            if new:
                hour = self._present_hour(session, found[0][-1])
                rows = [(hour, known[beat.node][0], *_opaque(beat)) for beat in new]
                session.copy("put_beats", _BEAT_TYPES, rows)
                received = [(node, *_columns(beat)) for node, beat in last.items()]
                session.run("hear", [list(column) for column in zip(*received, strict=True)])
            for beat in new:
                if beat.notices:
                    row = (beat.session, beat.sequence, beat.at, beat.notices)
                    session.put("put_news", (known[beat.node][0], *row))
        return new

    def beats(self, name: str, since: float | None = None) -> Sequence[Heartbeat]:
        with self._database.reading() as session:
            statement = ("last_beat", (name,)) if since is None else ("beats", (name, since))
            return [Heartbeat(*row) for row in session.run(*statement).fetchall()]

    def close(self) -> None:
        self._database.close()

    def _forget(self) -> None:
        self._hour = None

    def _drop_old(self) -> None:
        """Drops outdated heartbeats once an hour, unless someone is reading them."""
        if time.monotonic() - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = time.monotonic()
        with self._database.guarded() as session:
            hour, old = old_partitions(session, "beat")
        if old and hour != self._hour:
            with suppress(Conflict), self._database.transaction() as session:
                drop_partitions(session, "beat", old, None)

    def _present_hour(self, session: TableSession, hour: int) -> int:
        """Returns the hour of the server's clock, having made its partition."""
        if hour != self._hour:
            make_partition(session, "beat", hour)
            self._hour = hour
        return hour


_TABLES = (
    "device", "head", "unpacked", "extent", "alert_state", "outbox", "episode", "runs", "run_tags",
    "baselines", "beat", "news",
)  # fmt: skip
_FACTS = ("name", "token_hash", "added", "drained")
_columns = attrgetter("session", "sequence", "at", "sent", "digest")
_opaque = attrgetter("session", "sequence", "at", "sent", "snapshot", "ticks")
_BEAT_TYPES = ("int4", "int4", "text", "int8", "float8", "float8", "bytea", "bytea")


class PostgresNodePasts:
    """The history and alerts of many nodes, over the same two connections."""

    def __init__(self, url: StoreUrl) -> None:
        self._url, self._database = url, PostgresDatabase(url, HUB)

    def history(self, node: str) -> PostgresStore:
        return PostgresStore(self._url, node, shared=self._database)

    def courses(
        self, nodes: Sequence[str], metric: str, since: float, until: float, points: int
    ) -> Mapping[str, Sequence[Bucket]]:
        begin, end = round(since * 1000), round(until * 1000)
        given = {"since": window(Tier.MINUTE, begin), "until": end, "metric": metric}
        rows = dict[str, list[SeriesRow]]()
        with self._database.reading() as session:
            for node, tier, base, body in session.run("fleet_blocks", given | {"nodes": [*nodes]}):
                found = rows_of(Tier(tier), base, body, begin, (end - begin) / points)
                rows.setdefault(node, []).extend(found)
        scale = scale_of(metric)
        return {one: buckets(some, since, until, points, scale) for one, some in rows.items()}

    def alerts(self, node: str) -> AlertTables:
        return AlertTables(self._database.of_node(node))

    def runs(self, node: str | None) -> PostgresRunIndex:
        everywhere = node is None
        return PostgresRunIndex(self._url, node or HUB, self._database, everywhere)

    def news(self) -> Sequence[Heartbeat]:
        with self._database.reading() as session:
            return [Heartbeat(*row) for row in session.run("news").fetchall()]

    def drop_news(self, taken: Sequence[Heartbeat]) -> None:
        with self._database.transaction() as session:
            session.many("drop_news", [(one.node, one.session, one.sequence) for one in taken])

    def thin_news(self, most: int) -> Sequence[str]:
        with self._database.transaction() as session:
            return [name for (name,) in session.run("thin_news", (most,)).fetchall()]

    def clear(self, node: str) -> bool:
        with self._database.reading() as session:
            if session.run("known_node", (node,)).fetchone() is None:
                return False
        with self._database.of_node(node).transaction() as session:
            session.put("clear_devices", {"node": session.node})
            for table in _TABLES:
                session.execute(f"DELETE FROM {table} WHERE node = {session.node}")  # noqa: S608
        return True

    def tokens(self) -> Sequence[NamedToken]:
        with self._database.reading() as session:
            return [NamedToken(*row) for row in session.run("named_tokens").fetchall()]

    def add_token(self, token: NamedToken) -> bool:
        with self._database.transaction() as session:
            row = (token.name, token.hash, token.role, token.added)
            return bool(session.run("add_named_token", row).rowcount)

    def remove_token(self, name: str) -> bool:
        with self._database.transaction() as session:
            return bool(session.run("remove_named_token", (name,)).rowcount)

    def leads(self) -> bool:
        with self._database.guarded() as session:
            return bool(session.run("lead").fetchone()[0])

    def close(self) -> None:
        self._database.close()
