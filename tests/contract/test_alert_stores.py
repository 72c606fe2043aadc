"""What every store of alerts must keep: SQLite's file and the one in memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.testing.alert_store_contract import AlertStoreContract, OpenAlertStore, delivery
from andon.testing.store_contract import tick
from tests.support.history_parts import SCHEMES, reopening
from tests.support.notices import AT, HOT


class TestAlertStores(AlertStoreContract):
    """All of andon's own, and those of another package."""

    @pytest.fixture(params=SCHEMES)
    def reopen(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenAlertStore]:
        with reopening(request.param, tmp_path, "open_alerts") as reopen:
            yield reopen


# SQLite's own.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_the_history_and_the_alerts_share_a_file(path: Path) -> None:
    ledger, store = SqliteAlertStore(path), SqliteStore(path)
    store.write([tick(AT, 1)])
    ledger.save({"a": 1}, [HOT], [delivery()])
    store.write([tick(AT + 1, 1)])
    assert ledger.load() is not None
    assert store.history("GPU-1", "utilization_percent", AT, AT + 10, 1)[0].count == 2
    ledger.close()
    store.close()


def test_a_state_that_cannot_be_read_is_left_out_and_can_be_replaced(path: Path) -> None:
    ledger = SqliteAlertStore(path)
    ledger.save({}, [], [delivery()])
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE alert_state SET body = 'nonsense'")
        other.commit()
    saved = ledger.load()
    assert saved == ({}, (delivery(),)), "what waits is still sent"
    ledger.save({"b": 2}, [], [])
    saved = ledger.load()
    assert saved is not None
    assert saved.state == {"b": 2}
    ledger.close()


def test_a_damaged_file_is_moved_aside_once_for_both(path: Path) -> None:
    ledger, store = SqliteAlertStore(path), SqliteStore(path)
    ledger.save({"a": 1}, [HOT], [])
    store.write([tick(AT + n, 1) for n in range(500)])
    ledger.close()
    store.close()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * (path.stat().st_size - 100))
    path.with_name("history.db-wal").unlink(missing_ok=True)
    ledger, store = SqliteAlertStore(path), SqliteStore(path)
    ledger.save({"a": 2}, [], [])
    store.write([tick(AT, 1)])
    saved = ledger.load()
    assert saved is not None
    assert saved.state == {"a": 2}
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1
    ledger.close()
    store.close()
