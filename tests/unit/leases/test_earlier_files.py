"""What andon wrote before its names were settled is still read: lease book, server file, history.

The files were written by commit 00f863a: `andon run`, `andon.lease()` and a lease over REST, a
waiting `andon run`, `andon cordon` and `andon serve`, all with simulated devices.
"""

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from andon.alerts.rules.past import Query
from andon.alerts.rules.persistence import restore
from andon.explain.conditions.observation import Moment
from andon.host.state import server_file
from andon.leases.book.lease_book import Book
from andon.model.alert import NoticeKind
from andon.model.lease import LeaseKind
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from tests.conftest import REPOSITORY
from tests.support.homes import no_other_book

EARLIER = REPOSITORY / "tests" / "recorded" / "state-00f863a"
GPU = ("SIM-b18a02f4-6d8d-4362-bcaf-0a59dbc73ce2", "SIM-5775264a-9a7e-4b84-adf7-5ebb2b9124d5")


@pytest.fixture
def book(book_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    """The recorded book, with this process in the place of its holders."""
    shutil.copytree(EARLIER / "book", book_folder)
    no_other_book(monkeypatch)
    with ExitStack() as held:
        for file in [*book_folder.glob("leases/*.lease"), *book_folder.glob("tickets/*.ticket")]:
            until = json.loads(file.read_text().splitlines()[0])["until"]
            if file.suffix == ".lease":
                os.utime(file, (until, until))
            fcntl.flock(held.enter_context(file.open()), fcntl.LOCK_EX)
        yield Book()


def test_the_leases_of_an_earlier_book_are_held(book: Book) -> None:
    leases = {one.lease.id: one for one in book.entries() if one.lease is not None}
    assert all(entry.locked for entry in leases.values())
    found = {name: entry.lease for name, entry in leases.items() if entry.lease is not None}
    assert {name: lease.kind for name, lease in found.items()} == {
        "uvce4": LeaseKind.COMMAND,
        "z4njm": LeaseKind.LIBRARY,
        "ba3wh": LeaseKind.NETWORK,
    }
    assert [(s.uuid, s.memory_bytes) for s in found["uvce4"].shares] == [(GPU[0], None)]
    assert [(s.uuid, s.memory_bytes) for s in found["ba3wh"].shares] == [(GPU[1], 10 * 2**30)]
    assert found["uvce4"].work is not None
    assert found["uvce4"].work.group == 21429
    assert found["uvce4"].until == pytest.approx(1794768647.8405032)
    assert found["ba3wh"].fence == 1794761454040110
    assert found["ba3wh"].command == "notebook"
    assert book.left_out() == ()


def test_a_ticket_of_an_earlier_book_is_in_the_queue(book: Book) -> None:
    [waiting] = book.waiting()
    assert (waiting.ticket.id, waiting.ticket.priority) == ("e7vkg", -1)
    assert (waiting.ticket.need.least, waiting.ticket.need.memory_bytes) == (4, 10 * 2**30)
    assert len(waiting.ticket.need.eligible) == 4


def test_a_cordon_of_an_earlier_book_still_holds(book: Book) -> None:
    [cordon] = book.cordons()
    assert cordon.uuid == "SIM-d5159b73-432a-4338-a116-f23ddae3cfb4"
    assert cordon.reason == "loud fan"


def test_an_earlier_server_is_found(tmp_path: Path) -> None:
    shutil.copy(EARLIER / "server.json", tmp_path / "server.json")
    tmp_path.chmod(0o700)
    said = server_file.announced(tmp_path)
    assert said is not None
    assert (said.url, said.pid, said.node) == ("http://127.0.0.1:34111", 21440, "vm")


def test_an_earlier_history_is_read_with_its_alerts(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((EARLIER / "history.sql").read_text())
    for readonly in (True, False):  # before and after it is brought up to date
        store = SqliteStore(path, readonly=readonly)
        [use] = store.usage(None, 0, 2e9)
        assert (use.user, use.pid, use.peak_memory_bytes) == ("ada", 4711, 1024)
        assert store.history("GPU-1", "utilization_percent", 0, 2e9, 1)[0].count == 1
        store.close()
    alerts = SqliteAlertStore(path)
    saved = alerts.load()
    assert saved is not None
    state = restore(dict(saved.state), Moment(2e9, 2e9), None)
    [episode] = [on["leftover_memory"] for on in state.episodes.values()]
    assert episode.notified_rank is not None
    assert episode.alert.id.startswith("leftover_memory@")
    assert [silence.rule for silence in state.silences] == ["leftover_memory"]
    assert [silence.since > 0 for silence in state.silences] == [True]
    kinds = [delivery.notice.kind for delivery in saved.deliveries]
    assert kinds == [NoticeKind.FIRING, NoticeKind.WORSE]
    past = alerts.episodes(Query(rule="leftover_memory"))
    assert past
    assert all(alert.rule == "leftover_memory" for alert in past)
    alerts.close()
