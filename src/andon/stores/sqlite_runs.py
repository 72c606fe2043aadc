"""The index of runs: a small SQLite file in this machine's state folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from msgspec.structs import replace

from andon.errors import Gone, Unavailable
from andon.model.codec import Wrong
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json, row_to_json
from andon.runs.rules.baselines import RunBaseline, baseline_from_json, baseline_to_json
from andon.runs.rules.matching import RunQuery, glob_of, models_of, words_of
from andon.stores.sqlite_database import Database
from andon.stores.sqlite_file import FileKind
from andon.stores.statements import statements

RUNS_FILE = FileKind(
    "sqlite_runs", "index of runs", "move it away: andon runs add makes it again from the records"
)
SQL = statements(RUNS_FILE.dialect)
_LAST_CHARACTER = "\U0010ffff"
_ALL = -1  # SQLite's word for no limit


class SqliteRunIndex:
    """One file with its own connections; any number of processes may use it at once."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, kind=RUNS_FILE)

    @property
    def place(self) -> str:
        return str(self._database.path)

    def put(self, rows: Sequence[RunRow]) -> None:
        with self._database.transaction() as connection:
            for row in rows:
                known = connection.execute(SQL["get"], (row.id,)).fetchone()
                if known is not None:
                    old = _row(known[0])
                    row = replace(row, tags=old.tags, note=old.note)
                _write(connection, row)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        asked = _asked(query)
        asked |= {"limit": _ALL if query.limit is None else query.limit, "offset": query.offset}
        return self._rows("find", asked)

    def count(self, query: RunQuery) -> int:
        with self._database.reading() as connection:
            return int(connection.execute(SQL["count"], _asked(query)).fetchone()[0])

    def beginning(self, text: str, limit: int) -> Sequence[RunRow]:
        begins = _searched(text) or ""
        asked = {"beginning": begins, "after": begins + _LAST_CHARACTER, "limit": limit}
        return self._rows("beginning", asked)

    def paths(self) -> Mapping[str, str]:
        with self._database.reading() as connection:
            return dict(connection.execute(SQL["paths"]).fetchall())

    def annotate(self, run: str, tags: Sequence[str], note: str | None) -> None:
        with self._database.transaction() as connection:
            known = connection.execute(SQL["get"], (run,)).fetchone()
            if known is None:
                raise Gone(f"there is no run {run[:40]!r}")
            _write(connection, replace(_row(known[0]), tags=tuple(sorted(set(tags))), note=note))

    def drop(self, runs: Sequence[str]) -> None:
        with self._database.transaction() as connection:
            connection.executemany(SQL["drop"], [(run,) for run in runs])
            connection.executemany(SQL["drop_tags"], [(run,) for run in runs])

    def baselines(self) -> Sequence[RunBaseline]:
        with self._database.reading() as connection:
            rows = connection.execute(SQL["baselines"]).fetchall()
        return [_read(baseline_from_json, body) for (body,) in rows]

    def put_baseline(self, baseline: RunBaseline) -> None:
        body = json.dumps(baseline_to_json(baseline))
        with self._database.transaction() as connection:
            connection.execute(SQL["put_baseline"], (baseline.name, baseline.at, body))

    def drop_baseline(self, name: str) -> bool:
        with self._database.transaction() as connection:
            return bool(connection.execute(SQL["drop_baseline"], (name,)).rowcount)

    def close(self) -> None:
        self._database.close()

    def _rows(self, statement: str, asked: Mapping[str, Any]) -> list[RunRow]:
        with self._database.reading() as connection:
            found = connection.execute(SQL[statement], asked).fetchall()
        return [_row(body) for (body,) in found]


def _write(connection: Connection, row: RunRow) -> None:
    connection.execute(
        SQL["put"],
        {
            "id": row.id,
            "began": row.began,
            "name": row.name,
            "state": str(row.state),
            "grouped": row.group,
            "path": row.path,
            "models": models_of(row),
            "words": words_of(row),
            "body": json.dumps(row_to_json(row), separators=(",", ":")),
        },
    )
    connection.execute(SQL["drop_tags"], (row.id,))
    connection.executemany(SQL["put_tag"], [(row.id, tag) for tag in row.tags])


def _row(body: str) -> RunRow:
    found: RunRow = _read(row_from_json, body)
    return found


def _asked(query: RunQuery) -> dict[str, Any]:
    return {
        "since": query.since,
        "until": query.until,
        "name": _searched(None if query.name is None else glob_of(query.name)),
        "tag": _searched(query.tag),
        "group": _searched(query.group),
        "state": None if query.state is None else str(query.state),
        "model": _searched(None if query.model is None else query.model.lower()),
        "text": _searched(None if query.text is None else query.text.lower()),
    }


def _searched(text: str | None) -> str | None:
    """The text without lone surrogates, which a command line may have and SQLite refuses."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _read(reader: Any, body: str) -> Any:
    try:
        return reader(json.loads(body))
    except (ValueError, TypeError, Wrong) as exc:
        raise Unavailable(
            f"the index of runs cannot be read: {exc}",
            hint=RUNS_FILE.hint,
        ) from exc
