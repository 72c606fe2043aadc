"""What every store must keep: SQLite's file and the one in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from andon.stores.memory import MemoryStore
from andon.stores.sqlite import SqliteStore
from andon.testing.history import AT, GPU, tick, upkeep
from andon.testing.store_contract import RETENTION, ListedStore, OpenStore, StoreContract


class TestStores(StoreContract):
    """Both of andon's own."""

    @pytest.fixture(params=["sqlite", "memory"])
    def reopen(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
        """Makes the store; made again, it is what another start of andon finds."""
        made: list[ListedStore] = []

        def make() -> ListedStore:
            if request.param == "memory" and made:
                return made[0]
            if request.param == "memory":
                made.append(MemoryStore(RETENTION))
            else:
                made.append(SqliteStore(tmp_path / "state" / "history.db", RETENTION))
            return made[-1]

        yield make
        for store in made:
            store.close()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=st.dictionaries(st.integers(0, 4000), st.integers(0, 100), max_size=60),
    span=st.tuples(st.integers(-50, 4000), st.integers(1, 4000), st.integers(1, 50)),
)
def test_sqlite_answers_as_memory_does(
    tmp_path_factory: pytest.TempPathFactory,
    points: dict[int, int],
    span: tuple[int, int, int],
) -> None:
    plain, file = MemoryStore(), SqliteStore(tmp_path_factory.mktemp("s") / "h.db")
    try:
        ticks = [tick(AT + at, value) for at, value in points.items()]
        for store in (plain, file):
            store.write(ticks[::2])
            upkeep(store, AT + 2000)
            store.write(ticks[1::2])
        since, length, count = span
        asked = (GPU, "utilization_percent", AT + since, AT + since + length, count)
        assert plain.history(*asked) == file.history(*asked)
    finally:
        file.close()


def test_memory_lets_go_of_the_oldest_when_it_is_full() -> None:
    store = MemoryStore(most_bytes=1600)
    for second in range(500):
        store.write([tick(AT + second, 50)])
    assert store.size_bytes() <= 1600
    latest = store.history(GPU, "utilization_percent", AT, AT + 500, 1)[0]
    assert 0 < latest.count < 500
    assert store.history(GPU, "utilization_percent", AT + 499, AT + 500, 1)[0].count == 1
