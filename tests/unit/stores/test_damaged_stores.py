"""Whatever a database file has become, it is opened anew, set aside or refused with a sentence."""

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from andon.errors import AndonError
from andon.runs.rules.matching import RunQuery
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.stores.sqlite_runs import SqliteRunIndex
from tests.support.rows import rows

CHANCE = random.Random(29)
Damage = Callable[[Path], object]


def _at(place: int, size: int) -> Damage:
    def damage(path: Path) -> None:
        with path.open("r+b") as file:
            file.seek(min(place, path.stat().st_size))
            file.write(CHANCE.randbytes(size))

    return damage


def _sql(*statements: str) -> Damage:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return damage


def _odd_rows(path: Path) -> None:
    """Values of another type in every column of every table."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )]  # fmt: skip
        for name in names:
            columns = len(connection.execute(f"PRAGMA table_info({name})").fetchall())
            for value in (b"\xff\x00", "\x1b[31m{", -1, 1e300):
                marks = ",".join("?" * columns)
                insert = f"INSERT OR IGNORE INTO {name} VALUES ({marks})"
                with suppress(sqlite3.Error):  # a key that must be a number
                    connection.execute(insert, [value] * columns)
        connection.commit()


def _other(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: dict[str, Damage] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(9000)),
    "noise": lambda path: path.write_bytes(CHANCE.randbytes(9000)),
    "one byte": lambda path: path.write_bytes(b"S"),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut in its head": lambda path: os.truncate(path, 50),
    "a spoiled head": _at(20, 40),
    "a spoiled first page": _at(100, 400),
    "spoiled pages": _at(4096, 9000),
    "a noisy log": lambda path: Path(f"{path}-wal").write_bytes(CHANCE.randbytes(70_000)),
    "a noisy journal": lambda path: Path(f"{path}-journal").write_bytes(CHANCE.randbytes(70_000)),
    "newer": _sql("PRAGMA user_version = 99"),
    "of no version": _sql("PRAGMA user_version = 0"),
    "below zero": _sql("PRAGMA user_version = -5"),
    "another program's": _other(_sql("CREATE TABLE customers (x)")),
    "odd rows": _odd_rows,
    "a view of that name": _other(_sql("CREATE VIEW device AS SELECT 1")),
    "a folder": _other(lambda path: path.mkdir()),
    "a pipe": _other(os.mkfifo),
    "a link to nothing": _other(lambda path: path.symlink_to("/nowhere/at/all")),
    "a link to itself": _other(lambda path: path.symlink_to(path)),
    "a link to nothing's device": _other(lambda path: path.symlink_to("/dev/null")),
}


def _history(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.devices()
        store.history("GPU-1", "utilization_percent", 0.0, 1e9, 10)
        store.usage(None, 0.0, 1e9)


def _past(path: Path) -> None:
    with closing(SqliteStore(path, readonly=True)) as store:
        store.devices()
        store.usage(None, 0.0, 1e9)


def _alerts(path: Path) -> None:
    with closing(SqliteAlertStore(path)) as store:
        store.load()


def _runs(path: Path) -> None:
    with closing(SqliteRunIndex(path)) as index:
        index.find(RunQuery())
        index.paths()
        index.baselines()


USES: dict[str, Callable[[Path], Any]] = {
    "history": _history,
    "past": _past,
    "alerts": _alerts,
    "runs": _runs,
}


@pytest.mark.slow
@rows("use", list(USES))
@rows("damage", list(DAMAGES))
def test_a_damaged_file_costs_no_more_than_itself(use: str, damage: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        _history(path) if use == "past" else USES[use](path)
        DAMAGES[damage](path)
        for _ in range(2):  # the second time it may have been set aside
            with suppress(AndonError):
                USES[use](path)
        assert not Path("/nowhere").exists()
