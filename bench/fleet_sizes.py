"""The bytes of a value in PostgreSQL, beside SQLite and Prometheus: one day of a node in all three.

Stores get the same ticks, flush and maintenance as the recorder does them. The bytes are those of
tables or file, with indexes, divided by the number of values; Prometheus' own tool makes its blocks
of the day's first two hours.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from andon.history.rules.seeding import specimens
from andon.history.rules.series import NodeReadings, tick_of
from andon.history.rules.tiers import Retention
from andon.history.writer import Maintainer
from andon.model.device import Snapshot
from andon.ports import Store
from andon.settings.store_url import parse_store_url
from andon.stores.postgres import PostgresStore
from andon.stores.sqlite import SqliteStore
from bench import prometheus
from bench.fleet_database import database
from bench.fleet_figures import FleetFigure
from bench.history import BEGIN, DEVICES, FLUSH_TICKS, UPKEEP_TICKS, _played

MOST_BYTES = 0.8


def sizes(hours: int, simulated_minutes: int = 60) -> Iterator[FleetFigure]:
    seconds = hours * 3600
    played = _played(specimens(DEVICES), min(seconds, simulated_minutes * 60))
    with tempfile.TemporaryDirectory() as folder:
        sqlite = SqliteStore(Path(folder) / "history.db", "bench")
        postgres = PostgresStore(parse_store_url(database().schema("bench")), "bench")
        for name, store, most in (
            ("PostgreSQL", postgres, MOST_BYTES), ("SQLite", sqlite, None),
        ):  # fmt: skip
            values, spent = _day(store, played, seconds)
            Maintainer(store, Retention()).finish(BEGIN + seconds + 600.0)
            if store is postgres:
                _end_hours(postgres)
            size, blocks = store.size_bytes() / values, _block_bytes(store) / values
            more = f"{values:,} values, {hours} h; {blocks:.3f} blocks alone, "
            more += f"{1000 * spent / seconds:.2f} ms of CPU a tick"
            yield FleetFigure(f"a value in {name}", size, "B", most, more=more)
            store.close()
        if prometheus.is_here():
            series = prometheus.Series()
            for _, ticks in _flushes(played, min(seconds, prometheus.BLOCK_SECONDS)):
                for tick in ticks:
                    series.add(tick)
            found = prometheus.block(series, Path(folder))
            size = (found.chunk_bytes + found.index_bytes) / found.values
            yield FleetFigure("a value in Prometheus", size, "B", more=str(found))


def _day(store: Store, played: list[Snapshot], seconds: int) -> tuple[int, float]:
    """Records it; returns the number of values, and the CPU of this process."""
    maintainer, values, began = Maintainer(store, Retention()), 0, time.process_time()
    for second, ticks in _flushes(played, seconds):
        store.write(ticks, (), [status.device for status in played[0].devices])
        values += sum(tick.count for tick in ticks)
        if second % UPKEEP_TICKS < FLUSH_TICKS:
            maintainer.step(BEGIN + second)
    return values, time.process_time() - began


def _flushes(played: list[Snapshot], seconds: int) -> Iterator[tuple[int, list[NodeReadings]]]:
    for first in range(0, seconds, FLUSH_TICKS):
        yield (
            first,
            [
                tick_of(
                    Snapshot("bench", float(BEGIN + at), True, host=seen.host, devices=seen.devices)
                )
                for at in range(first, first + FLUSH_TICKS)
                for seen in [played[at % len(played)]]
            ],
        )


def _end_hours(store: PostgresStore) -> None:
    """Lets the hours pass in which ticks were written, as they do in a day: the partitions go."""
    with store._database.transaction() as session:
        for name in session.run("partitions", ("head",)).fetchone()[1]:
            session.execute(f"DROP TABLE {name}")
    store.compact(fully=True)


def _block_bytes(store: PostgresStore | SqliteStore) -> int:
    with store._database.reading() as session:
        asked = "SELECT sum(length(body)) FROM block WHERE tier = 0"
        return int(session.execute(asked).fetchone()[0])
