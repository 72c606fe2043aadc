"""Alerts on a disk that is full, read-only, or without its file: people are told all the same."""

from collections.abc import Callable
from pathlib import Path

from andon.alerts.rules.past import Query
from andon.model.alert import NoticeKind
from andon.model.device import State
from andon.ports import AlertStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from tests.support.alerting_parts import Heard, Playing
from tests.support.disks import disk, fill, mount
from tests.support.waiting import wait_for

__all__ = ["disk"]

FIRING = NoticeKind.FIRING


def opening(path: Path) -> Callable[[], AlertStore]:
    return lambda: SqliteAlertStore(path)


def kept(path: Path) -> list[str]:
    ledger = SqliteAlertStore(path)
    found = [alert.rule for alert in ledger.episodes(Query(rule="device_lost"))]
    ledger.close()
    return found


def test_on_a_full_disk_people_are_told_and_it_is_written_once_there_is_room(disk: Path) -> None:
    phone = Heard()
    playing = Playing(phone, ledger=opening(disk / "history.db"))
    playing.tick(State.OK, ticks=2)
    fill(disk / "filler")
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    wait_for(lambda: "the disk is full" in (playing.watcher.health()["reason"] or ""))
    (disk / "filler").unlink()
    wait_for(lambda: playing.watcher.health()["state"] == "ok")
    playing.watcher.close()
    assert kept(disk / "history.db") == ["device_lost"]


def test_on_a_disk_that_turned_read_only_too(disk: Path) -> None:
    phone = Heard()
    playing = Playing(phone, ledger=opening(disk / "history.db"))
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    playing.watcher.close()
    assert mount("-o", "remount,ro", str(disk)).returncode == 0
    again = Heard()
    playing.again(again)
    wait_for(lambda: playing.watcher.health()["state"] == "degraded")
    playing.lose()
    wait_for(lambda: again.kinds() == [FIRING])
    assert mount("-o", "remount,rw", str(disk)).returncode == 0
    wait_for(lambda: playing.watcher.health()["state"] == "ok")
    playing.watcher.close()


def test_a_file_that_is_deleted_is_begun_anew_with_all_that_is_known(tmp_path: Path) -> None:
    path, broken, phone = tmp_path / "history.db", Heard("broken"), Heard()
    broken.broken = True
    playing = Playing(broken, phone, ledger=opening(path))
    playing.lose()
    wait_for(lambda: phone.kinds() == [FIRING])
    for part in tmp_path.glob("history.db*"):
        part.unlink()
    playing.tick(State.LOST, State.LOST, ticks=3)
    wait_for(lambda: len(phone.kinds()) == 2)
    playing.watcher.close()
    ledger = SqliteAlertStore(path)
    saved = ledger.load()
    ledger.close()
    assert saved is not None
    waiting = [e for e in saved.deliveries if e.notice.alert.rule == "device_lost"]
    assert [e.notifier for e in waiting] == ["broken", "broken"]
    assert len(saved.state["alerting"]["episodes"]) >= 2
