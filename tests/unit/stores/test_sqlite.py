"""What is SQLite's own: its form changes step by step, and its file stays small."""

import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from andon.errors import Invalid, Unavailable
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import HOST, NodeReadings
from andon.history.rules.tiers import DAY_SECONDS
from andon.stores import sqlite_file
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.stores.sqlite_runs import SqliteRunIndex
from andon.stores.statements import statements
from tests.support.history_parts import AT, GPU, tick, upkeep
from tests.support.rows import rows
from tests.support.surroundings import mounted


def test_the_files_and_their_new_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "andon" / "history.db"
    old = os.umask(0)
    try:
        store = SqliteStore(path)
        store.write([tick(AT, 1)])
        modes = {found.name: found.stat().st_mode & 0o777 for found in (tmp_path).rglob("*")}
        store.close()
    finally:
        os.umask(old)
    assert modes == {
        "state": 0o700, "andon": 0o700,
        "history.db": 0o600, "history.db-wal": 0o600, "history.db-shm": 0o600,
    }  # fmt: skip


def test_a_file_that_its_owner_shares_stays_shared(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    SqliteStore(path).close()
    path.chmod(0o640)
    SqliteStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_devices_that_come_and_go_leave_their_own_points(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "history.db")
    both = tick(AT, 1).readings
    for second in range(900):
        store.write([NodeReadings(AT + second, both if second % 3 else both[:1])])
    store.write([NodeReadings(AT, both[1:]), NodeReadings(AT + 3, both)])  # late, and once more
    for _ in range(2):
        assert store.history(GPU, "power_watts", AT, AT + 900, 1)[0].count == 900
        assert store.history(HOST, "cpu_percent", AT, AT + 900, 1)[0].count == 602
        upkeep(store, AT + 3600)
    store.close()


def test_several_parts_may_open_a_new_file_at_the_same_time(tmp_path: Path) -> None:
    """The history and the alerts do, at every first start."""
    path = tmp_path / "history.db"
    ready, opened = threading.Barrier(6), list[SqliteAlertStore]()

    def open_it() -> None:
        ready.wait()
        opened.append(SqliteAlertStore(path))

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 6
    for number, ledger in enumerate(opened):
        ledger.save({"n": number}, (), ())
        ledger.close()
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_a_newer_form_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite_file.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(Invalid, match="newer andon"):
        SqliteStore(path)
    assert [p.name for p in tmp_path.iterdir() if "corrupt" in p.name] == []


@rows("made", ["PRAGMA user_version = 99", "CREATE TABLE customers (name)"])
def test_what_is_not_ours_is_not_touched(made: str) -> None:
    """Not even its journal mode, which SQLite writes into the file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(made)
        before = path.read_bytes()
        for kind in (SqliteStore, SqliteAlertStore, SqliteRunIndex):
            with pytest.raises(Invalid):
                kind(path)
        assert path.read_bytes() == before
        assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_every_statement_is_understood(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "history.db")
    with closing(sqlite_file.connect(tmp_path / "history.db")) as connection:
        for name, sql in statements("sqlite").items():
            values: object = {"uuid": "", "position": 0, "vendor": "", "name": "", "tier": 0}
            values |= dict.fromkeys(  # type: ignore[operator]
                (
                    "since",
                    "until",
                    "device",
                    "pid",
                    "started",
                    "first",
                    "last",
                    "user",
                    "peak",
                    "length",
                    "node",
                    "after",
                ),
                0,
            ) | dict.fromkeys(("state", "level", "rule", "subject", "limit"), 0)
            if "?" in sql:
                values = (0,) * sql.count("?")
            connection.execute(f"EXPLAIN {sql}", values)  # type: ignore[arg-type]
            assert name
    store.close()


def test_two_damaged_files_of_one_second_get_two_names(tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        (tmp_path / "history.db").write_bytes(b"x")
        names.append(sqlite_file.move_damaged(tmp_path / "history.db", 0.0).name)
    assert names == ["history.db.corrupt-19700101T000000Z", "history.db.corrupt-19700101T000000Z-2"]


def test_a_damaged_block_is_a_gap_and_the_rest_is_answered(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "history.db")
    store.write([tick(AT + n, 5) for n in range(1200)])
    upkeep(store, AT + 1800)
    with closing(sqlite3.connect(tmp_path / "history.db")) as connection:
        connection.execute("UPDATE block SET body = zeroblob(90) WHERE since = ?", (AT * 1000,))
        connection.commit()
    found = store.history(GPU, "utilization_percent", AT, AT + 1200, 2)
    assert [bucket.count for bucket in found] == [0, 600]
    upkeep(store, AT + DAY_SECONDS)
    store.close()


@pytest.mark.slow
def test_who_asks_while_it_is_packed_sees_all_of_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "history.db")
    store.write([tick(AT + n, n % 100) for n in range(3600)])
    packing = threading.Thread(target=upkeep, args=(store, AT + DAY_SECONDS))
    packing.start()
    seen = set()
    while packing.is_alive():
        found = store.history(GPU, "utilization_percent", AT, AT + 3600, 7)
        seen.add(sum(bucket.count for bucket in found))
    packing.join()
    found = store.history(GPU, "utilization_percent", AT, AT + 3600, 7)
    assert seen | {sum(bucket.count for bucket in found)} == {3600}
    store.close()


BROKEN = (
    "DROP TABLE device",
    "DROP TABLE alert_state",
    "ALTER TABLE episode RENAME COLUMN body_length TO heaviness",
    "PRAGMA user_version = 0",
)


def set_aside(folder: Path) -> list[str]:
    return [found.name for found in folder.glob("history.db.corrupt-*Z")]


@pytest.mark.parametrize("statement", BROKEN)
def test_a_file_without_one_of_its_tables_is_set_aside(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "history.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    store = SqliteStore(path)
    store.write([tick(AT, 1)])
    assert store.history(GPU, "utilization_percent", AT, AT + 1, 1)[0].count == 1
    store.close()
    assert len(set_aside(tmp_path)) == 1


def test_a_table_that_vanishes_while_it_is_used_costs_one_write(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    store = SqliteStore(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE use")
    with pytest.raises(Unavailable):
        store.write([tick(AT, 1)], [UsageInterval(GPU, 1, None, "ada", None, AT, AT)])
    store.write([tick(AT, 1)], [UsageInterval(GPU, 1, None, "ada", None, AT, AT)])
    assert len(store.usage(None, AT - 1, AT + 1)) == 1
    store.close()
    assert len(set_aside(tmp_path)) == 1


def test_who_only_reads_a_file_without_a_table_is_told_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE device")
    store = SqliteStore(path, readonly=True)
    with pytest.raises(Unavailable, match="damaged") as told:
        store.devices()
    assert "andon serve" in told.value.hint
    store.close()
    assert set_aside(tmp_path) == []


@pytest.mark.parametrize("version", [0, 1])
def test_the_database_of_another_program_is_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE moz_places (url)")
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(Invalid, match="another program"):
        SqliteStore(path)
    assert set_aside(tmp_path) == []
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)


def test_a_link_that_leads_nowhere_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.symlink_to(tmp_path / "target")
    with pytest.raises(Unavailable, match="link"):
        SqliteStore(path)
    with pytest.raises(sqlite3.OperationalError):
        sqlite_file.connect(path)
    assert not (tmp_path / "target").exists()


def test_a_link_to_a_file_on_another_disk_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    SqliteStore(tmp_path / "large.db").close()
    path.symlink_to(tmp_path / "large.db")
    store = SqliteStore(path)
    store.write([tick(AT, 1)])
    store.close()
    assert path.is_symlink()


# A network file system.


@pytest.fixture
def networked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the mounts place on NFS."""
    mounts = f"/dev/sda1 / ext4 rw 0 0\nserver:/home {tmp_path.resolve()} nfs4 rw 0 0\n"
    mounted(monkeypatch, mounts)
    return tmp_path


def points(store: SqliteStore) -> int:
    found = store.history(GPU, "utilization_percent", AT - 1, AT + 10, 1)
    return sum(bucket.count for bucket in found)


def mode_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        found: str = connection.execute("PRAGMA journal_mode").fetchone()[0]
    return found


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "fuse.sshfs", "9p"]
)
def test_every_network_file_system_needs_a_rollback_journal(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    for found, needed in ((kind, True), ("ext4", False), ("xfs", False), ("tmpfs", False)):
        mounts = f"/dev/sda1 / ext4 rw 0 0\nx {place.resolve()} {found} rw 0 0\n"
        for folder in (place, tmp_path / "link"):
            assert sqlite_file.needs_rollback_journal(folder / "history.db", mounts) is needed


def test_on_a_network_file_system_the_history_has_no_write_ahead_log(networked: Path) -> None:
    path = networked / "history.db"
    store, alerts = SqliteStore(path), SqliteAlertStore(path)
    store.write([tick(AT, 1)])
    assert {found.name for found in networked.iterdir()} == {"history.db"}
    for one in (store, SqliteStore(path, readonly=True)):
        assert points(one) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    store.close()
    alerts.close()
    assert mode_of(path) == "delete"


def test_a_write_ahead_log_from_before_is_written_back_there(
    networked: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The file was copied with its log while a server wrote it, as after a kill."""
    path = tmp_path_factory.mktemp("local") / "history.db"
    before = SqliteStore(path)
    before.write([tick(AT, 1)])
    copied = networked / "home"
    shutil.copytree(path.parent, copied)
    before.close()
    assert (copied / "history.db-wal").stat().st_size > 0
    store = SqliteStore(copied / "history.db")
    assert points(store) == 1
    store.write([tick(AT + 1, 2)])
    assert points(store) == 2
    store.close()
    assert mode_of(copied / "history.db") == "delete"
    assert not (copied / "history.db-wal").exists()


def test_a_journal_goes_aside_with_its_file(tmp_path: Path) -> None:
    """It would be rolled back into the next file of that name."""
    for ending in ("", "-journal"):
        (tmp_path / f"history.db{ending}").write_bytes(b"x")
    sqlite_file.move_damaged(tmp_path / "history.db", 0.0)
    assert {path.name for path in tmp_path.iterdir()} == {
        "history.db.corrupt-19700101T000000Z", "history.db.corrupt-19700101T000000Z-journal",
    }  # fmt: skip
