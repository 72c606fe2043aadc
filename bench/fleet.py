"""What a hub takes for 500 nodes: `python -m bench.fleet`. With `--sizes`: a day in both stores.

For the sizes both stores get the same ticks of one node, flush and maintenance as the recorder does
them. The bytes are those of tables or file, with indexes, divided by the number of values.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.postgres import server

from andon.history.rules.seeding import specimens
from andon.history.rules.series import NodeReadings, tick_of
from andon.history.rules.tiers import Retention
from andon.history.writer import Maintainer
from andon.model.device import Snapshot
from andon.ports import Store
from andon.settings.store_url import parse_store_url
from andon.stores.postgres import PostgresStore
from andon.stores.sqlite import SqliteStore
from bench.fleet_players import play
from bench.history import BEGIN, DEVICES, FLUSH_TICKS, UPKEEP_TICKS, _played


def main() -> None:
    options = _options()
    if not options.sizes:
        play(options.nodes, options.seconds)
        return
    seconds = options.hours * 3600
    played = _played(specimens(DEVICES), min(seconds, options.simulated_minutes * 60))
    print(f"{options.hours} h of {DEVICES} devices at 1 Hz")
    titles = ("values", "MB", "B a value", "blocks alone", "CPU ms a tick")
    print(f"{'store':<12}" + "".join(f"{title:>15}" for title in titles))
    with tempfile.TemporaryDirectory() as folder:
        sqlite = SqliteStore(Path(folder) / "history.db", "bench")
        postgres = PostgresStore(parse_store_url(server().schema("bench")), "bench")
        for name, store in (("PostgreSQL", postgres), ("SQLite", sqlite)):
            values, spent = _day(store, played, seconds)
            Maintainer(store, Retention()).finish(BEGIN + seconds + 600.0)
            if store is postgres:
                _end_hours(postgres)
            size, blocks = store.size_bytes(), _block_bytes(store)
            found = (f"{values:,}", f"{size / 1e6:.1f}", f"{size / values:.3f}",
                     f"{blocks / values:.3f}", f"{1000 * spent / seconds:.3f}")  # fmt: skip
            print(f"{name:<12}" + "".join(f"{one:>15}" for one in found))
            store.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("--sizes", action="store_true", help="the size of a day in both stores")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--simulated-minutes", type=int, default=60)
    return parser.parse_args()


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
        for name in session.run("partitions").fetchone()[1]:
            session.execute(f"DROP TABLE {name}")
    store.compact(fully=True)


def _block_bytes(store: PostgresStore | SqliteStore) -> int:
    with store._database.reading() as session:
        asked = "SELECT sum(length(body)) FROM block WHERE tier = 0"
        return int(session.execute(asked).fetchone()[0])


if __name__ == "__main__":
    main()
