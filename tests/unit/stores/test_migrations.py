"""A file of an earlier form is brought up to date once, whole or not at all; and whose it is."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from andon.errors import Gone, Invalid, Unavailable
from andon.runs.rules.matching import RunQuery
from andon.stores import sqlite_database, sqlite_file
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.stores.sqlite_runs import SqliteRunIndex
from andon.stores.statements import migrations
from andon.testing.run_index_contract import FIRST
from tests.support.disks import disk as disk
from tests.support.disks import fill
from tests.support.history_parts import AT, GPU, tick, upkeep
from tests.support.replaced import answers, constants

MADE_UP = (
    "CREATE TABLE shade (name TEXT);\nINSERT INTO shade VALUES ('red');\n",
    "-- It has a better name now.\nALTER TABLE shade RENAME TO colour;\n"
    "UPDATE colour SET name = name || 'dish';\n",
)
"""What a second and a third migration might be."""

KILLED = """
import os, pathlib, signal, sys
from andon.stores import sqlite_file
steps, number = sqlite_file.migrations, 0
sqlite_file.migrations = lambda dialect: (*steps(dialect), *sys.argv[4:])
kind = sqlite_file.FileKind(sys.argv[2], "", "")
def count(statement):
    global number
    number += not statement.startswith("--")
    if number == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
connection = sqlite_file.connect(pathlib.Path(sys.argv[1]))
connection.set_trace_callback(count)
sqlite_file.migrate(connection, kind)
print(number)
"""
"""Kills itself before the statement of that number."""


def with_steps(monkeypatch: pytest.MonkeyPatch, dialect: str, *more: str) -> None:
    """Lets this andon know further migrations."""
    steps = (*migrations(dialect), *more)
    for module in (sqlite_file, sqlite_database):
        answers(monkeypatch, module, "migrations", steps)
    constants(monkeypatch, sqlite_database, _MADE={})


def fill_history(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.write([tick(AT, 42)])


def check_history(path: Path, node: str = "node-1") -> None:
    with closing(SqliteStore(path, node)) as store:
        assert store.history(GPU, "utilization_percent", AT, AT + 1, 1)[0].mean == 42


def fill_runs(path: Path) -> None:
    with closing(SqliteRunIndex(path)) as index:
        index.put([FIRST])


def check_runs(path: Path, node: str = "node-1") -> None:
    with closing(SqliteRunIndex(path, node)) as index:
        assert [row.id for row in index.find(RunQuery())] == [FIRST.id]


Use = Callable[[Path], None]
USES: dict[str, tuple[Use, Use]] = {
    "sqlite": (fill_history, check_history),
    "sqlite_runs": (fill_runs, check_runs),
}


@pytest.mark.parametrize("dialect", USES)
@pytest.mark.parametrize("known", range(len(MADE_UP)))
def test_further_migrations_run_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, known: int
) -> None:
    path, (fill, check) = tmp_path / "store.db", USES[dialect]
    with_steps(monkeypatch, dialect, *MADE_UP[:known])
    fill(path)
    with_steps(monkeypatch, dialect, *MADE_UP)
    for _ in range(2):
        check(path)
        with closing(sqlite3.connect(path)) as connection:
            assert sqlite_file.version_of(connection) == 1 + len(MADE_UP)
            assert connection.execute("SELECT name FROM colour").fetchall() == [("reddish",)]
    with_steps(monkeypatch, dialect)
    with pytest.raises(Invalid, match=r"newer andon \(format 3, known: 1\)"):
        fill(path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_migration_that_fails_leaves_the_form_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite_file.connect(tmp_path / "history.db")) as connection:
        sqlite_file.migrate(connection)
        with_steps(monkeypatch, "sqlite", "CREATE TABLE one (a);\nNONSENSE;\n")
        with pytest.raises(sqlite3.OperationalError):
            sqlite_file.migrate(connection)
        assert sqlite_file.version_of(connection) == 1
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'one'").fetchall()


@pytest.mark.process
@pytest.mark.parametrize("dialect", USES)
def test_a_kill_in_the_middle_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str
) -> None:
    template, (fill, check) = tmp_path / "template.db", USES[dialect]
    fill(template)
    with_steps(monkeypatch, dialect, *MADE_UP)
    last = _killed(Path(shutil.copy(template, tmp_path / "whole.db")), dialect, 0)
    assert last is not None
    for number in range(1, last + 1, 3):
        path = Path(shutil.copy(template, tmp_path / f"{number}.db"))
        assert _killed(path, dialect, number) is None
        check(path)
    assert not list(tmp_path.glob("*.corrupt-*"))


def _killed(path: Path, dialect: str, number: int) -> int | None:
    """Returns how many statements there were; None if it was killed."""
    command = [sys.executable, "-c", KILLED, str(path), dialect, str(number), *MADE_UP]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == -signal.SIGKILL:
        return None
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def test_the_second_node_begins_with_nothing(tmp_path: Path) -> None:
    history, runs = tmp_path / "history.db", tmp_path / "runs.db"
    fill_history(history)
    fill_runs(runs)
    check_history(history)
    check_runs(runs)
    with closing(SqliteStore(history, "node-2")) as store:
        assert (list(store.devices()), list(store.usage(None, 0, 2e9))) == ([], [])
        assert store.contents().extents == {}
        store.write([tick(AT, 1)])
        upkeep(store, AT + 3600)
    with closing(SqliteRunIndex(runs, "node-2")) as index:
        assert index.count(RunQuery()) == 0
    with closing(SqliteAlertStore(history, "node-2")) as alerts:
        assert alerts.load() is None
    check_history(history)


def test_a_machines_own_file_stays_its_own_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    fill_history(path)  # as in its folder
    for node, readonly in (("copied", True), ("node-1", False), ("node-1", True), ("", False)):
        with closing(SqliteStore(path, node, readonly)) as store:
            found = store.history(GPU, "utilization_percent", AT, AT + 1, 1)[0]
            assert found.mean == 42, (node, readonly)


def test_who_reads_learns_which_nodes_there_are(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for node in ("node-2", "node-1"):
        SqliteStore(path, node).close()
    for node in ("node-3", ""):
        with pytest.raises(Gone, match="has nothing of the node") as refused:
            SqliteStore(path, node, readonly=True)
        assert refused.value.hint == "name one that it has with ANDON_NODE: node-1, node-2"


def test_who_reads_a_newer_form_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(migrations('sqlite')) + 1}")
    with pytest.raises(Invalid, match="newer andon"):
        SqliteStore(path, readonly=True)


GROWING = """\
CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000)
    SELECT i, randomblob(1000) AS filling FROM n;
"""


@pytest.mark.process
def test_a_full_disk_leaves_the_form_as_it_was_and_room_lets_it_go_on(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = disk / "history.db"
    fill_history(path)
    with_steps(monkeypatch, "sqlite", GROWING)
    fill(disk / "full")
    with pytest.raises(Unavailable, match="the disk is full"), closing(SqliteStore(path)) as store:
        store.write([tick(AT + 1, 43)])
    with closing(sqlite_file.untouched(path)) as connection:
        assert sqlite_file.version_of(connection) == 1
    (disk / "full").unlink()
    check_history(path)
    with closing(sqlite3.connect(path)) as connection:
        assert sqlite_file.version_of(connection) == 2
        assert connection.execute("SELECT count(*) FROM large").fetchone() == (2000,)
