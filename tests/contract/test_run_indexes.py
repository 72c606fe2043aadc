"""What every index of runs must keep: SQLite's file and the one in memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from andon.errors import Invalid
from andon.runs.rules.matching import RunQuery
from andon.stores.sqlite_runs import SqliteRunIndex
from andon.testing.run_index_contract import FIRST, OpenRunIndex, RunIndexContract
from tests.support.history_parts import SCHEMES, reopening


class TestRunIndexes(RunIndexContract):
    """All of andon's own, and that of another package."""

    @pytest.fixture(params=SCHEMES)
    def reopen(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenRunIndex]:
        with reopening(request.param, tmp_path, "open_runs") as reopen:
            yield reopen


# SQLite's own.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_a_damaged_index_is_moved_aside_and_begun_anew(path: Path) -> None:
    path.write_bytes(b"no database" * 400)
    with closing(SqliteRunIndex(path)) as index:
        index.put([FIRST])
        assert list(index.find(RunQuery())) == [FIRST]
    assert len(list(path.parent.glob("*.corrupt-*"))) == 1


def test_the_file_is_private(path: Path) -> None:
    SqliteRunIndex(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
        other.commit()
    with pytest.raises(Invalid, match="index of runs file is another program's database"):
        SqliteRunIndex(path)


def test_a_newer_index_is_not_touched(path: Path) -> None:
    SqliteRunIndex(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(Invalid, match="newer andon"):
        SqliteRunIndex(path)
