"""What every ledger must keep: SQLite's file and the one in memory."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from andon.core.alerting.past import KEPT_SECONDS, Query
from andon.core.notifying.outbox import Delivery
from andon.errors import Unavailable
from andon.model.alert import Alert, Level, Party, Phase
from andon.ports import AlertStore
from andon.registry import STORES
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.testing.notices import AT, DISK, HOT, LOST, notice
from tests.support.history_parts import kind_of, tick, url_in

Reopen = Callable[[], AlertStore]


@pytest.fixture(params=sorted(STORES))
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the alerts; opened again, they are what another start of andon finds."""
    made: list[AlertStore] = []
    kind, url = kind_of(request.param), url_in(tmp_path, request.param)

    def make() -> AlertStore:
        if url.scheme != "memory" or not made:
            made.append(kind.open_alerts(url))
        return made[-1]

    yield make
    for ledger in made:
        ledger.close()
        ledger.close()


def delivery(alert: Alert = HOT, notifier: str = "phone", due: float = AT) -> Delivery:
    return Delivery(notice(alert), notifier, due)


def over(alert: Alert) -> Alert:
    return replace(alert, state=Phase.RESOLVED, resolved=AT)


def test_an_empty_ledger_has_nothing(reopen: Reopen) -> None:
    assert reopen().load() is None
    assert list(reopen().episodes(Query())) == []
    assert reopen().prune(AT) == 0


def test_state_and_deliveries_are_there_after_a_restart(reopen: Reopen) -> None:
    deliveries = [delivery(), delivery(notifier="mail", due=AT + 5), delivery(LOST)]
    reopen().save({"a": [1, "ü", None]}, [], deliveries)
    saved = reopen().load()
    assert saved is not None
    assert saved.state == {"a": [1, "ü", None]}
    assert list(saved.deliveries) == deliveries


def test_what_is_not_to_be_told_any_more_is_gone(reopen: Reopen) -> None:
    ledger = reopen()
    ledger.save({}, [], [delivery(), delivery(LOST)])
    ledger.save({}, [], [delivery(LOST), delivery(DISK)])
    saved = reopen().load()
    assert saved is not None
    assert list(saved.deliveries) == [delivery(LOST), delivery(DISK)]


def test_an_episode_is_kept_once_and_as_it_last_was(reopen: Reopen) -> None:
    ledger = reopen()
    ledger.save({}, [HOT], [])
    ledger.save({}, [over(HOT)], [])
    assert list(reopen().episodes(Query())) == [over(HOT)]


def test_what_never_fired_is_not_kept(reopen: Reopen) -> None:
    ledger = reopen()
    vain = replace(HOT, fired=None, state=Phase.RESOLVED, resolved=AT)
    ledger.save({}, [replace(HOT, fired=None, state=Phase.PENDING), vain], [])
    assert list(ledger.episodes(Query())) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(), [LOST, HOT, DISK]),
        (Query(limit=2), [LOST, HOT]),
        (Query(state=Phase.RESOLVED), [HOT]),
        (Query(state=Phase.FIRING), [LOST, DISK]),
        (Query(level=Level.WARNING), [DISK]),
        (Query(rule="device_lost"), []),
        (Query(rule="lost"), [LOST]),
        (Query(subject="node"), [DISK]),
        (Query(until=HOT.since), [DISK]),
        (Query(since=AT + 1), [LOST, DISK]),
        (Query(since=AT), [LOST, HOT, DISK]),
    ],
)
def test_the_past_can_be_asked_for(reopen: Reopen, query: Query, found: list[Alert]) -> None:
    ledger = reopen()
    ledger.save({}, [DISK, over(HOT), LOST], [])
    assert [alert.id for alert in ledger.episodes(query)] == [alert.id for alert in found]


def test_old_episodes_go_and_what_fires_stays(reopen: Reopen) -> None:
    ledger = reopen()
    ledger.save({}, [over(HOT), DISK], [])
    assert ledger.prune(AT + KEPT_SECONDS - 1) == 0
    assert ledger.prune(AT + KEPT_SECONDS + 1) == 1
    assert [alert.rule for alert in ledger.episodes(Query())] == ["node_disk"]


def test_long_command_lines_and_crowds_are_not_kept_for_a_year(reopen: Reopen) -> None:
    crowd = tuple(Party(n, "ada", "python", "x" * 4096) for n in range(100))
    reopen().save({}, [replace(HOT, affected=crowd)], [])
    (kept,) = reopen().episodes(Query())
    assert len(kept.affected) == 4
    assert all(len(party.command or "") <= 200 for party in kept.affected)


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


def test_what_cannot_be_read_is_an_error_and_can_be_replaced(path: Path) -> None:
    ledger = SqliteAlertStore(path)
    ledger.save({}, [], [delivery()])
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE alert_state SET body = 'nonsense'")
        other.commit()
    with pytest.raises(Unavailable, match="cannot be read"):
        ledger.load()
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
