"""What is SQLite's own: its form changes step by step, and its file stays small."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from andon.core.series_codec import pack_points
from andon.core.series_tiers import DAY_SECONDS, Retention, Tier
from andon.core.series_uses import Use
from andon.errors import Invalid
from andon.stores import sqlite_file
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteLedger
from andon.stores.statements import migrations, statements
from tests.contract.test_stores import AT, GPU, tick, upkeep

STEPS = migrations("sqlite")


@pytest.mark.parametrize("version", range(len(STEPS) + 1))
def test_a_file_of_every_earlier_form_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite_file.connect(path)) as connection:
        sqlite_file.migrate(connection, STEPS[:version])
        assert sqlite_file.version_of(connection) == version
        if version:
            connection.execute("INSERT INTO device (uuid, position) VALUES ('GPU-1', 5)")
    store = SqliteStore(path)
    store.write([tick(AT, 1)], [Use(GPU, 1, None, "ada", None, AT, AT)])
    assert store.history(GPU, "utilization_percent", AT, AT + 1, 1)[0].count == 1
    assert [d.index for d in store.devices()] == ([5] if version else [])
    store.close()


def test_a_migration_that_fails_leaves_the_form_as_it_was(tmp_path: Path) -> None:
    with closing(sqlite_file.connect(tmp_path / "history.db")) as connection:
        sqlite_file.migrate(connection, STEPS[:1])
        with pytest.raises(sqlite3.OperationalError):
            sqlite_file.migrate(connection, [STEPS[0], "CREATE TABLE one (a);\nNONSENSE;"])
        assert sqlite_file.version_of(connection) == 1
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'one'").fetchall()


def test_several_parts_may_open_a_new_file_at_the_same_time(tmp_path: Path) -> None:
    """The history and the alerts do, at every first start."""
    path = tmp_path / "history.db"
    ready, opened = threading.Barrier(6), list[SqliteLedger]()

    def open_it() -> None:
        ready.wait()
        opened.append(SqliteLedger(path))

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


def test_every_statement_is_understood(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "history.db")
    with closing(sqlite_file.connect(tmp_path / "history.db")) as connection:
        for name, sql in statements("sqlite").items():
            values: object = {"uuid": "", "position": 0, "vendor": "", "name": "", "tier": 0}
            values |= dict.fromkeys(  # type: ignore[operator]
                ("since", "until", "device", "pid", "started", "first", "last", "user", "peak"), 0
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
        names.append(sqlite_file.move_aside(tmp_path / "history.db", 0.0).name)
    assert names == ["history.db.corrupt-19700101T000000Z", "history.db.corrupt-19700101T000000Z-2"]


def test_a_size_budget_is_kept(tmp_path: Path) -> None:
    retention = Retention(most_bytes=300_000)
    store = SqliteStore(tmp_path / "history.db", retention)
    noise = list(range(0, 600_000, 1000))
    begin = int(AT * 1000)
    for number in range(6 * 24 * 2):
        body = pack_points(noise, [hash((number, n)) % 4096 for n in range(600)])
        store.load([], [(GPU, "power_watts", Tier.RAW, begin + 600_000 * number, body)])
    now = AT + 2 * DAY_SECONDS
    upkeep(store, now)
    with closing(sqlite3.connect(tmp_path / "history.db")) as connection:
        pages, free = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count")
        )
    assert (pages - free) * 4096 <= retention.most_bytes
    newest = store.history(GPU, "power_watts", now - 3600, now, 60)
    assert all(bucket.count == 60 for bucket in newest)
    oldest = store.history(GPU, "power_watts", AT, AT + 3600, 60)
    assert all(bucket.count == 60 for bucket in oldest), "the minutes are still known"
    store.close()


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
