"""PostgreSQL stopped, restarted, frozen, full or replaced by its standby while andon records:
nothing that was read is lost or there twice, and nobody has to do anything."""

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from andon.alerts.writer import AlertWriter
from andon.settings.store_url import parse_store_url
from andon.stores.postgres import PostgresStore
from andon.stores.postgres_database import LimitedConnection
from andon.stores.postgres_kind import PostgresKind
from andon.testing.alert_store_contract import delivery
from tests.support.disks import disk, fill
from tests.support.history_parts import AT, GPU
from tests.support.notices import HOT
from tests.support.postgres import USER, Server, server, url_of
from tests.support.recording import Recording
from tests.support.waiting import retry_soon, wait_for

__all__ = ["disk"]


@pytest.fixture
def own() -> Iterator[Server]:
    """The server of this process, which runs again when the test has ended."""
    yield server()
    server().start_again()


def opened(url: str) -> PostgresStore:
    return PostgresStore(parse_store_url(url), "node-1")


def begun(url: str) -> Recording:
    recording = Recording(opened(url))
    recording.tick()
    recording.goes_on_until(lambda: recording.recorder.health().written_snapshots > 0)
    return recording


def count(url: str) -> int:
    with closing(opened(url)) as store:
        return store.history(GPU, "utilization_percent", AT, AT + 1000, 1)[0].count


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
def test_a_server_that_was_away_gets_everything(
    own: Server, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_soon(monkeypatch)
    url = url_of(tmp_path)
    recording = begun(url)
    alerts = AlertWriter(lambda: PostgresKind.open_alerts(parse_store_url(url), "node-1"))
    alerts.write({"n": 1}, [], [delivery()])
    assert alerts.settle(30)
    own.stop(number)
    recording.fails_with("postgresql:///postgres")
    alerts.write({"n": 2}, [HOT], [delivery(), delivery(HOT, "mail")])
    assert not alerts.settle(30)
    own.start_again()
    recording.recovers()
    assert count(url) == recording.ticks
    wait_for(lambda: alerts.trouble is None)
    saved = alerts.store.load()
    assert saved is not None
    assert (saved.state, len(saved.deliveries)) == ({"n": 2}, 2)
    alerts.close()


def test_a_restart_between_two_writes_is_not_noticed(own: Server, tmp_path: Path) -> None:
    with closing(opened(url_of(tmp_path))) as store:
        store.history(GPU, "utilization_percent", AT, AT + 1, 1)
        own.stop()
        own.start_again()
        assert store.contents().unpacked == ()
        assert list(store.usage(None, 0, AT)) == []
        store.forget(0.0)


def test_a_frozen_server_does_not_freeze_andon(
    own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit under way may still happen when it wakes up: the ticks are there once."""
    retry_soon(monkeypatch)
    url = f"{url_of(tmp_path)}&connect_timeout=2"
    recording = begun(url)
    with monkeypatch.context() as hasty:
        hasty.setattr(LimitedConnection, "patience_seconds", 0.5)
        own.send(signal.SIGSTOP)
        try:
            recording.fails_with("does not respond: no answer for 0 s")
            recording.goes_on_until(lambda: recording.recorder.health().buffered_snapshots > 30)
        finally:
            own.send(signal.SIGCONT)
    recording.recovers()
    assert count(url) == recording.ticks


def test_a_full_disk_is_said_and_once_emptied_everything_is_written(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_soon(monkeypatch)
    shared = server()
    os.chown(disk, pwd.getpwnam(USER).pw_uid, -1)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    shared.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
    schema = url_of(tmp_path)
    url = schema.replace("options=", "options=-cdefault_tablespace%3Dsmall%20")
    recording = begun(url)
    fill(disk / "filler")
    recording.fails_with("the disk of the database is full")
    (disk / "filler").unlink()
    recording.recovers()
    assert count(url) == recording.ticks
    name = schema.rpartition("%3D")[2]
    shared.sql(f"DROP SCHEMA {name} CASCADE")
    shared.sql("DROP TABLESPACE small")


def test_a_standby_takes_over(own: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are named; while none takes writes, ticks wait."""
    retry_soon(monkeypatch)
    schema = url_of(tmp_path).rpartition("=")[2]
    folder = Path(tempfile.mkdtemp(prefix="andon-pg."))
    standby = Server(folder).copy_of(own).start()
    try:
        own.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        own.sql("SELECT pg_reload_conf()")
        wait_for(lambda: own.sql("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        hosts, ports = f"{own.folder},{standby.folder}", f"{own.port},{standby.port}"
        url = f"{own.url(host=hosts, port=ports)}&options={schema}"
        recording = begun(url)
        own.stop(signal.SIGQUIT)
        recording.fails_with("only a standby responds")
        standby.promote()
        recording.recovers()
        assert count(url) == recording.ticks
    finally:
        own.start_again()
        own.sql("ALTER SYSTEM RESET synchronous_standby_names")
        own.sql("SELECT pg_reload_conf()")
        standby.stop(signal.SIGQUIT)
        shutil.rmtree(folder)
