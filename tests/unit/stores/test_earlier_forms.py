"""Files of before a store had nodes: read as they are, brought up to date once, whole or not."""

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from andon.alerts.rules.past import Query
from andon.errors import Gone, Invalid
from andon.runs.rules.matching import RunQuery, counted
from andon.stores.sqlite import SqliteStore
from andon.stores.sqlite_alerts import SqliteAlertStore
from andon.stores.sqlite_runs import SqliteRunIndex
from andon.stores.statements import migrations
from andon.testing.alert_store_contract import delivery, over
from andon.testing.run_index_contract import FIRST, GOOD, SECOND, SIGHTS, THIRD
from andon.testing.store_contract import AT, GPU, tick, upkeep
from tests.conftest import REPOSITORY
from tests.support.notices import DISK, HOT, LOST

RECORDED = REPOSITORY / "tests" / "recorded" / "state-ae2e3af"
NAMES = ("", "node-1")

KILLED = """
import os, signal, sqlite3, sys
from andon.stores.sqlite_file import HISTORY_FILE, connect, migrate
from andon.stores.sqlite_runs import RUNS_FILE
path, kind, number = sys.argv[1], HISTORY_FILE if sys.argv[2] == "history" else RUNS_FILE, 0
def count(statement):
    global number
    number += not statement.startswith("--")
    if number == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
import pathlib
connection = connect(pathlib.Path(path))
connection.set_trace_callback(count)
migrate(connection, kind)
print(number)
"""
"""Kills itself before the statement of that number."""


def earlier(folder: Path, name: str) -> Path:
    """A file that the code before nodes wrote: see `store_contract` and the others for what."""
    path = folder / f"{name}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((RECORDED / f"{name}.sql").read_text("utf-8"))
    return path


def check_history(path: Path, node: str, readonly: bool = False) -> None:
    with closing(SqliteStore(path, node, readonly)) as store:
        found = store.history(GPU, "utilization_percent", AT, AT + 1860, 1)[0]
        assert (found.count, found.min, found.max) == (31, 0, 50)
        assert [use.user for use in store.usage(None, AT, AT + 60)] == ["ada"]
        assert [(one.uuid, one.index) for one in store.devices()] == [(GPU, 3)]
        assert "power_watts" in store.metrics(GPU)
        assert len(store.contents().unpacked) == 2
        assert len(store.contents().extents) == 1


def check_alerts(path: Path, node: str) -> None:
    with closing(SqliteAlertStore(path, node)) as alerts:
        saved = alerts.load()
        assert saved is not None
        assert saved.state == {"a": [1, "ü", None]}
        assert list(saved.deliveries) == [delivery(), delivery(LOST, "mail")]
        assert list(alerts.episodes(Query())) == [over(HOT), DISK]


def check_runs(path: Path, node: str) -> None:
    with closing(SqliteRunIndex(path, node)) as index:
        rows = index.find(RunQuery())
        assert [row.id for row in rows] == [THIRD.id, SECOND.id, FIRST.id]
        assert (rows[2].tags, rows[2].note) == (("best",), "the one in the paper")
        assert [row.id for row in index.find(RunQuery(tag="best"))] == [FIRST.id]
        assert list(index.baselines()) == [GOOD]
        for sight in SIGHTS:
            for query in (RunQuery(sight=sight), RunQuery(words=("paper",), sight=sight)):
                assert index.counts(query) == counted(rows, query)


CHECKS: dict[str, tuple[Callable[[Path, str], None], ...]] = {
    "history": (check_history, check_alerts),
    "runs": (check_runs,),
}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("node", NAMES)
def test_it_is_brought_up_to_date_and_belongs_to_who_opens_it_first(
    tmp_path: Path, name: str, node: str
) -> None:
    path = earlier(tmp_path, name)
    for _ in range(2):
        for check in CHECKS[name]:
            check(path, node)
    assert not list(tmp_path.glob("*.corrupt-*"))


def test_the_second_node_begins_with_nothing(tmp_path: Path) -> None:
    history, runs = earlier(tmp_path, "history"), earlier(tmp_path, "runs")
    check_history(history, "node-1")
    check_runs(runs, "node-1")
    with closing(SqliteStore(history, "node-2")) as store:
        assert (list(store.devices()), list(store.usage(None, 0, 2e9))) == ([], [])
        assert store.contents().extents == {}
        store.write([tick(AT, 1)])
        upkeep(store, AT + 3600)
    with closing(SqliteRunIndex(runs, "node-2")) as index:
        assert index.count(RunQuery()) == 0
    with closing(SqliteAlertStore(history, "node-2")) as alerts:
        assert alerts.load() is None
    check_history(history, "node-1")
    check_alerts(history, "node-1")


@pytest.mark.parametrize("node", NAMES)
def test_who_only_reads_it_reads_it_and_changes_nothing(tmp_path: Path, node: str) -> None:
    path = earlier(tmp_path, "history")
    before = path.read_bytes()
    check_history(path, node, readonly=True)
    assert path.read_bytes() == before


def test_who_reads_it_goes_on_while_it_is_brought_up_to_date(tmp_path: Path) -> None:
    path = earlier(tmp_path, "history")
    with closing(SqliteStore(path, "node-1", readonly=True)) as reader:
        check_history(path, "node-1")
        assert reader.history(GPU, "utilization_percent", AT, AT + 1860, 1)[0].count == 31
        assert [one.index for one in reader.devices()] == [3]


@pytest.mark.process
@pytest.mark.parametrize("name", CHECKS)
def test_a_kill_in_the_middle_costs_nothing(tmp_path: Path, name: str) -> None:
    template = earlier(tmp_path, name)
    last = _killed(Path(shutil.copy(template, tmp_path / "whole.db")), name, 0)
    assert last is not None
    for number in range(1, last + 1, 5):
        path = Path(shutil.copy(template, tmp_path / f"{number}.db"))
        assert _killed(path, name, number) is None
        for check in CHECKS[name]:
            check(path, "node-1")
    assert not list(tmp_path.glob("*.corrupt-*"))


def _killed(path: Path, name: str, number: int) -> int | None:
    """Returns how many statements there were; None if it was killed."""
    command = [sys.executable, "-c", KILLED, str(path), name, str(number)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == -signal.SIGKILL:
        return None
    assert ended.returncode == 0, ended.stderr
    return int(ended.stdout)


def test_a_machines_own_file_stays_its_own_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(SqliteStore(path)) as store:  # as in its folder
        store.write([tick(AT, 42)])
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
