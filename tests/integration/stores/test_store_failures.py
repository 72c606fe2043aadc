"""The history's file on a disk that fills up, turns read-only, is locked, damaged or gone."""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from andon.errors import Conflict, Denied, Unavailable
from andon.ports import Store
from andon.stores.sqlite import SqliteStore
from tests.support.disks import disk, fill, mount
from tests.support.history_parts import AT, GPU, tick, upkeep
from tests.support.recording import Recording
from tests.support.waiting import wait_for

__all__ = ["disk"]

WRITER = Path(__file__).parents[1] / "store_writer.py"


def recording_in(path: Path) -> Recording:
    return Recording(SqliteStore(path))


def count(path: Path, until: int) -> int:
    store = SqliteStore(path)
    found = store.history(GPU, "utilization_percent", AT, AT + until, 1)[0].count
    store.close()
    return found


def test_a_full_disk_is_said_and_once_emptied_everything_is_written(disk: Path) -> None:
    recording = recording_in(disk / "history.db")
    recording.tick()
    recording.goes_on_until(lambda: recording.recorder.health().written_snapshots > 0)
    filler = disk / "filler"
    fill(filler)
    recording.fails_with("the disk is full")
    filler.unlink()
    recording.recovers()
    assert count(disk / "history.db", 1000) == recording.ticks


def test_a_read_only_remount_is_said_and_ends(disk: Path) -> None:
    recording = recording_in(disk / "history.db")
    recording.tick()
    recording.goes_on_until(lambda: recording.recorder.health().written_snapshots > 0)
    remounted(disk, "ro", recording.store)
    recording.fails_with("cannot be written")
    remounted(disk, "rw", recording.store)
    recording.recovers()
    assert count(disk / "history.db", 1000) == recording.ticks


def remounted(disk: Path, how: str, store: Store) -> None:
    """The kernel refuses while a file is open for writing, so the store lets go of it."""
    end = time.monotonic() + 60
    while True:
        store.close()
        done = mount("-o", f"remount,{how}", str(disk))
        if not done.returncode:
            return
        assert time.monotonic() < end, done.stderr


def test_a_locked_file_is_said_and_waited_for(tmp_path: Path) -> None:
    recording = recording_in(tmp_path / "history.db")
    recording.tick()
    recording.goes_on_until(lambda: recording.recorder.health().written_snapshots > 0)
    other = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recording.fails_with("is locked by another process")
    other.execute("ROLLBACK")
    other.close()
    recording.recovers()
    assert count(tmp_path / "history.db", 1000) == recording.ticks


def test_a_deleted_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history.db"
    recording = recording_in(path)
    recording.tick()
    recording.goes_on_until(lambda: recording.recorder.health().written_snapshots > 0)
    shutil.rmtree(path.parent)
    written = recording.recorder.health().written_snapshots
    recording.goes_on_until(lambda: recording.recorder.health().written_snapshots > written + 3)
    recording.recovers()
    assert count(path, 1000) > 0


def test_a_file_damaged_under_our_hands_is_moved_aside_and_never_deleted(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    recording = recording_in(path)
    recording.tick()
    # All of them: a write that is still to come would be mixed with the damage.
    wait_for(lambda: recording.recorder.health().written_snapshots == recording.ticks)
    recording.store.close()
    noise = random.Random(4).randbytes(64 * 4096)
    with path.open("r+b") as file:
        file.write(noise)
    recording.goes_on_until(lambda: any(tmp_path.glob("history.db.corrupt-*Z")))
    recording.recovers()
    (aside,) = [p for p in tmp_path.glob("history.db.corrupt-*") if p.name.endswith("Z")]
    assert aside.read_bytes() == noise
    assert count(path, 1000) > 0


def test_a_damaged_page_in_the_middle_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    store = SqliteStore(path)
    store.write([tick(AT + n, n % 100) for n in range(600)])
    store.close()
    with path.open("r+b") as file:
        file.seek(2 * 4096)
        file.write(random.Random(5).randbytes(path.stat().st_size - 2 * 4096))
    store = SqliteStore(path)
    with suppress(Unavailable):
        store.history(GPU, "utilization_percent", AT, AT + 600, 10)
    store.write([tick(AT + 700, 1)])
    assert store.history(GPU, "utilization_percent", AT + 700, AT + 701, 1)[0].count == 1
    store.close()
    assert list(tmp_path.glob("history.db.corrupt-*"))


def test_what_was_opened_for_reading_is_never_moved_or_changed(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Unavailable, match="damaged"):
        SqliteStore(path, readonly=True)
    path.unlink()
    SqliteStore(path).close()
    store = SqliteStore(path, readonly=True)
    with pytest.raises(Unavailable, match="read-only"):
        store.write([tick(AT, 1)])
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Unavailable):
        store.history(GPU, "utilization_percent", AT, AT + 1, 1)
    store.close()
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_each_kind_of_failure_has_its_error(disk: Path) -> None:
    path = disk / "history.db"
    store = SqliteStore(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Conflict):
        store.write([tick(AT, 1)])
    other.execute("ROLLBACK")
    other.close()
    store.write([tick(AT, 1)])
    remounted(disk, "ro", store)
    with pytest.raises(Denied):
        store.write([tick(AT + 1, 1)])
    remounted(disk, "rw", store)
    store.write([tick(AT + 2, 1)])
    store.close()
    assert count(path, 10) == 2


def test_a_killed_writer_has_lost_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    luck, first = random.Random(20), 0
    path = tmp_path / "history.db"
    for _ in range(20):
        command = [sys.executable, str(WRITER), str(path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(luck.randrange(1, 60))]
            writer.send_signal(signal.SIGKILL)
            lines += writer.stdout.readlines()
        acknowledged = max(int(line) for line in lines if line.endswith("\n"))
        store = SqliteStore(path)
        found = store.history(
            GPU, "utilization_percent", AT, AT + 20 * (acknowledged + 1), acknowledged + 1
        )
        store.close()
        assert [bucket.count for bucket in found] == [1] * (acknowledged + 1)
        first = acknowledged + 1
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_a_log_cut_anywhere_holds_all_that_was_committed_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    log = Path(f"{path}-wal")
    store = SqliteStore(path)
    committed: list[tuple[int, int]] = []
    for number in range(60):
        store.write([tick(AT + number, number)])
        committed.append((log.stat().st_size, number + 1))
    database, whole = path.read_bytes(), log.read_bytes()
    store.close()
    luck = random.Random(200)
    for copy in range(200):
        cut = luck.randrange(len(whole) + 1)
        folder = tmp_path / f"copy{copy}"
        folder.mkdir()
        (folder / "history.db").write_bytes(database)
        (folder / "history.db-wal").write_bytes(whole[:cut])
        promised = max((n for size, n in committed if size <= cut), default=0)
        assert count(folder / "history.db", 100) >= promised
        assert not list(folder.glob("*.corrupt-*"))
        shutil.rmtree(folder)


def test_packing_that_is_cut_off_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    store = SqliteStore(path)
    store.write([tick(AT + n, n % 100) for n in range(1800)])
    upkeep(store, AT + 1800)
    database, whole = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    store.close()
    luck = random.Random(7)
    for copy in range(20):
        folder = tmp_path / f"copy{copy}"
        folder.mkdir()
        (folder / "history.db").write_bytes(database)
        # The ticks are in the first half of the log, the packing in the rest.
        cut = luck.randrange(len(whole) * 9 // 10, len(whole) + 1)
        (folder / "history.db-wal").write_bytes(whole[:cut])
        assert count(folder / "history.db", 1800) == 1800
