"""What every store must keep: SQLite's file and the one in memory, each through its port."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from andon.errors import Gone
from andon.history.rules.codec import point
from andon.history.rules.series import buckets
from andon.ports import Store
from andon.registry import STORES
from andon.stores.memory import MemoryStore
from andon.testing.store_contract import AT, GPU, OpenStore, StoreContract, tick, upkeep
from tests.support.history_parts import SCHEMES, STORE_URLS, kind_of, reopening, url_in


def opened(scheme: str, folder: Path, readonly: bool = False) -> Store:
    return kind_of(scheme).open(url_in(folder, scheme), "node-1", readonly)


def test_every_store_is_tried() -> None:
    assert set(STORES) < set(STORE_URLS)


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class TestStores(StoreContract):
    """All of andon's own, and that of another package."""

    test_a_share_of_time_is_a_share_at_every_range = pytest.mark.slow(
        StoreContract.test_a_share_of_time_is_a_share_at_every_range
    )
    test_a_clock_that_was_far_behind_costs_nothing_that_was_kept = pytest.mark.slow(
        StoreContract.test_a_clock_that_was_far_behind_costs_nothing_that_was_kept
    )
    test_the_size_limit_shortens_the_finest_tier_first = pytest.mark.slow(
        StoreContract.test_the_size_limit_shortens_the_finest_tier_first
    )

    @pytest.fixture
    def reopen(self, scheme: str, tmp_path: Path) -> Iterator[OpenStore]:
        with reopening(scheme, tmp_path, "open") as reopen:
            yield reopen


@settings(
    max_examples=min(10, settings().max_examples),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    points=st.dictionaries(st.integers(0, 4000), st.integers(0, 100), max_size=60),
    span=st.tuples(st.integers(-50, 4000), st.integers(1, 4000), st.integers(1, 50)),
)
@example(points={240: 0}, span=(-50, 290, 17))  # at the end, which rounding puts before it
@pytest.mark.slow
def test_every_store_answers_as_a_list_of_points_does(
    tmp_path_factory: pytest.TempPathFactory,
    scheme: str,
    points: dict[int, int],
    span: tuple[int, int, int],
) -> None:
    store = opened(scheme, tmp_path_factory.mktemp("s"))
    ticks = [tick(AT + at, value) for at, value in points.items()]
    store.write(ticks[::2])
    upkeep(store, AT + 2000)
    store.write(ticks[1::2])
    since, length, count = span
    begin, end = AT + since, AT + since + length
    plain = [point(round((AT + at) * 1000), value) for at, value in points.items()]
    found = store.history(GPU, "utilization_percent", begin, end, count)
    store.close()
    assert found == buckets(plain, begin, end, count)


def test_reading_alone_creates_nothing(scheme: str, tmp_path: Path) -> None:
    with pytest.raises(Gone):
        opened(scheme, tmp_path, readonly=True)
    assert list(tmp_path.iterdir()) == []


def test_memory_lets_go_of_the_oldest_when_it_is_full() -> None:
    most, page = MemoryStore().size_bytes() + 8192, 4096
    store = MemoryStore(most)
    for second in range(500):
        store.write([tick(AT + second, 50)])
    assert store.size_bytes() <= most + page
    latest = store.history(GPU, "utilization_percent", AT, AT + 500, 1)[0]
    assert 0 < latest.count < 500
    assert store.history(GPU, "utilization_percent", AT + 499, AT + 500, 1)[0].count == 1


def test_its_files_are_those_that_it_makes(scheme: str, tmp_path: Path) -> None:
    """Doctor checks who may read them, so none may be missing."""
    kind, url = kind_of(scheme), url_in(tmp_path, scheme)
    store, alerts = kind.open(url, ""), kind.open_alerts(url, "")
    store.write([tick(AT, 1)])
    alerts.save({}, (), ())
    made = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert made <= set(kind.files(url).values())
    assert sum(path.stat().st_size for path in made) <= store.size_bytes()
    alerts.close()
    store.close()


@pytest.mark.parametrize("ask", [MemoryStore.devices, lambda store: store.metrics(GPU)])
def test_memory_is_not_read_while_it_is_written(ask: Callable[[MemoryStore], object]) -> None:
    store = MemoryStore()
    asking = threading.Thread(target=ask, args=(store,))
    with store._database.transaction():  # as `write` and `pack` hold it
        asking.start()
        asking.join(0.1)
        assert asking.is_alive()
    asking.join(10.0)
    assert not asking.is_alive()
