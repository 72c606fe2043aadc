"""What every store of a hub's nodes and of their past must keep: PostgreSQL's."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from andon.ports import NodePasts, NodeStore
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind
from andon.testing.node_store_contract import (
    AT,
    ONE,
    NodePastsContract,
    NodeStoreContract,
    OpenNodePasts,
    OpenNodeStore,
    beat,
)
from tests.support.postgres import server, url_of

pytestmark = pytest.mark.process


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[OpenNodeStore]:
    with ExitStack() as stack:

        def make() -> NodeStore:
            store = PostgresKind.open_nodes(parse_store_url(url_of(tmp_path)))
            stack.callback(store.close)
            return store

        yield make


@pytest.fixture
def pasts(tmp_path: Path) -> Iterator[OpenNodePasts]:
    with ExitStack() as stack:

        def make() -> NodePasts:
            opened = PostgresKind.open_pasts(parse_store_url(url_of(tmp_path)))
            stack.callback(opened.close)
            return opened

        yield make


class TestPostgresNodePasts(NodePastsContract):
    """On a real server."""


class TestPostgresNodes(NodeStoreContract):
    """On a real server."""


def test_heartbeats_of_past_hours_are_dropped(reopen: OpenNodeStore, tmp_path: Path) -> None:
    store, url = reopen(), url_of(tmp_path)
    store.put(ONE)
    store.take([beat(1)])
    age = "CREATE TABLE beat_7 PARTITION OF beat FOR VALUES IN (7); UPDATE beat SET hour = 7"
    server().sql(age, url)
    other = reopen()
    assert list(other.take([beat(2)])) == [beat(2)]
    assert server().sql("SELECT sequence FROM beat", url) == [(2,)]
    assert [node.heard for node in other.nodes()] == [AT + 10]
