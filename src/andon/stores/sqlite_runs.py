"""The index of runs: a small SQLite file."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from msgspec.structs import replace

from andon.access.roles import BLIND
from andon.errors import Gone, Unavailable
from andon.model.codec import Wrong
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json, row_to_json
from andon.runs.rules.baselines import RunBaseline, baseline_from_json, baseline_to_json
from andon.runs.rules.matching import (
    RunCounts,
    RunQuery,
    glob_of,
    models_of,
    names_of,
    seen_by,
    terms_of,
    words_of,
)
from andon.stores.sqlite_database import Database
from andon.stores.sqlite_file import FileKind
from andon.stores.statements import statements

_TEXTS = statements("sqlite_runs")
SQL = {name: text.replace("{matching}", _TEXTS["matching"]) for name, text in _TEXTS.items()}
_LAST_CHARACTER = "\U0010ffff"
_ALL = -1  # SQLite's word for no limit


class SqliteRunIndex:
    """One file with its own connections; any number of processes may use it at once."""

    def __init__(self, path: Path, node: str = "") -> None:
        self._database = Database(path, node, kind=RUNS_FILE)

    @property
    def place(self) -> str:
        return str(self._database.path)

    def put(self, rows: Sequence[RunRow]) -> None:
        with self._database.transaction() as connection:
            for row in rows:
                known = connection.execute(SQL["get"], (self._node, row.id)).fetchone()
                if known is not None:
                    old = _row(known[0])
                    row = replace(row, tags=old.tags, note=old.note)
                _write(connection, self._node, row)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        limit = {"limit": _ALL if query.limit is None else query.limit, "offset": query.offset}
        return [_row(body) for (body,) in self._found("find", {**_asked(query), **limit})]

    def count(self, query: RunQuery) -> int:
        return int(self._found("count", _asked(query))[0][0])

    def counts(self, query: RunQuery) -> RunCounts:
        devices, groups, states = Counter[tuple[str, ...]](), Counter[str](), Counter[str]()
        asked = _asked(query)
        for state, group, names, number in self._found("kinds", asked):
            devices[tuple(names.split("\n")) if names else ()] += number
            states[state] += number
            groups.update({group: number} if group else {})
        return RunCounts(devices, dict(self._found("tags", asked)), groups, states)

    def beginning(self, text: str, limit: int) -> Sequence[RunRow]:
        begins = _searched(text) or ""
        asked = {"beginning": begins, "after": begins + _LAST_CHARACTER, "limit": limit}
        return [_row(body) for (body,) in self._found("beginning", asked)]

    def paths(self) -> Mapping[str, str]:
        return dict(self._found("paths", ()))

    def states(self) -> Mapping[str, str]:
        return dict(self._found("states", ()))

    def annotate(self, run: str, tags: Sequence[str], note: str | None) -> None:
        with self._database.transaction() as connection:
            known = connection.execute(SQL["get"], (self._node, run)).fetchone()
            if known is None:
                raise Gone(f"there is no run {run[:40]!r}")
            row = replace(_row(known[0]), tags=tuple(sorted(set(tags))), note=note)
            _write(connection, self._node, row)

    def drop(self, runs: Sequence[str]) -> None:
        with self._database.transaction() as connection:
            for statement in ("drop", "drop_tags"):
                connection.executemany(SQL[statement], [(self._node, run) for run in runs])

    def baselines(self) -> Sequence[RunBaseline]:
        return [_read(baseline_from_json, body) for (body,) in self._found("baselines", ())]

    def put_baseline(self, baseline: RunBaseline) -> None:
        body = json.dumps(baseline_to_json(baseline))
        with self._database.transaction() as connection:
            asked = (self._node, baseline.name, baseline.at, body)
            connection.execute(SQL["put_baseline"], asked)

    def drop_baseline(self, name: str) -> bool:
        with self._database.transaction() as connection:
            return bool(connection.execute(SQL["drop_baseline"], (self._node, name)).rowcount)

    def close(self) -> None:
        self._database.close()

    @property
    def _node(self) -> int:
        return self._database.node

    def _found(self, statement: str, asked: Mapping[str, Any] | tuple[()]) -> list[Any]:
        with self._database.reading() as connection:
            given = {**asked, "node": self._node} if isinstance(asked, Mapping) else (self._node,)
            return connection.execute(SQL[statement], given).fetchall()


def _write(connection: Connection, node: int, row: RunRow) -> None:
    others = seen_by(BLIND, row)
    connection.execute(
        SQL["put"],
        {
            "node": node,
            "id": row.id,
            "began": row.began,
            "state": str(row.state),
            "grouped": row.group,
            "user": row.user,
            "name": row.name,
            "open_name": others.name,
            "path": row.path,
            "devices": "\n".join(names_of(row)),
            "models": models_of(row),
            "words": words_of(row),
            "open_words": words_of(others),
            "body": json.dumps(row_to_json(row), separators=(",", ":")),
        },
    )
    connection.execute(SQL["drop_tags"], (node, row.id))
    connection.executemany(SQL["put_tag"], [(node, row.id, tag) for tag in row.tags])


def _fill(connection: Connection) -> None:
    """Fills the columns that came with the second form. What cannot be read is dropped: its
    record is found again."""
    for node, run, body in connection.execute("SELECT node, id, body FROM runs").fetchall():
        try:
            _write(connection, node, _row(body))
        except Unavailable:
            connection.execute(SQL["drop"], (node, run))


RUNS_FILE = FileKind(
    "sqlite_runs",
    "index of runs",
    "move it away: andon runs add makes it again from the records",
    {2: _fill},
)


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
        "words": _list(terms_of(query)),
        "without": _list(sorted(query.without)),
        "not_user": _searched(query.not_user),
        "everything": query.sight.everything,
        "user": _searched(query.sight.user),
    }


def _list(texts: Sequence[str]) -> str | None:
    return json.dumps([_searched(text) for text in texts]) if texts else None


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
