"""The index of runs in the tables of a database."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from msgspec.structs import replace

from andon.access.roles import BLIND
from andon.errors import Gone, Unavailable
from andon.model.codec import Wrong, read
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.model.shapes import to_json
from andon.runs.rules.baselines import RunBaseline
from andon.runs.rules.matching import (
    RunCounts,
    RunQuery,
    models_of,
    names_of,
    seen_by,
    texts_of,
)
from andon.stores.session import Database, TableSession

REBUILD = "move it away: andon runs add makes it again from the records"
_LAST_CHARACTER = "\U0010ffff"


class RunTables:
    """The index of a node; any number of processes may use it at once."""

    no_limit: ClassVar[int | None] = None
    """What the database takes for no limit."""

    def __init__(self, database: Database, place: str, everywhere: bool = False) -> None:
        """With `everywhere` searches find the runs of all nodes."""
        self._database, self.place, self._everywhere = database, place, everywhere

    def put(self, rows: Sequence[RunRow]) -> None:
        with self._database.transaction() as session:
            for row in rows:
                known = session.run("get", (session.node, row.id)).fetchone()
                if known is not None:
                    old = read_row(known[0])
                    row = replace(row, tags=old.tags, note=old.note)
                _write_row(session, row)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        limit = {
            "limit": self.no_limit if query.limit is None else query.limit,
            "offset": query.offset,
        }
        return [
            read_row(body) for (body,) in self._found("find", {**self._parameters(query), **limit})
        ]

    def count(self, query: RunQuery) -> int:
        return int(self._found("count", self._parameters(query))[0][0])

    def counts(self, query: RunQuery) -> RunCounts:
        devices, groups, states = Counter[tuple[str, ...]](), Counter[str](), Counter[str]()
        parameters = self._parameters(query)
        for state, group, names, number in self._found("kinds", parameters):
            devices[tuple(names.split("\n")) if names else ()] += number
            states[state] += number
            groups.update({group: number} if group else {})
        return RunCounts(devices, dict(self._found("tags", parameters)), groups, states)

    def beginning(self, text: str, limit: int) -> Sequence[RunRow]:
        begins = _searched(text) or ""
        parameters = {"beginning": begins, "after": begins + _LAST_CHARACTER, "limit": limit}
        return [read_row(body) for (body,) in self._found("beginning", parameters)]

    def paths(self) -> Mapping[str, str]:
        return dict(self._found("paths", ()))

    def states(self) -> Mapping[str, str]:
        return dict(self._found("states", ()))

    def annotate(self, run: str, tags: Sequence[str], note: str | None) -> None:
        with self._database.transaction() as session:
            known = session.run("get", (session.node, run)).fetchone()
            if known is None:
                raise Gone(f"there is no run {run[:40]!r}")
            row = replace(read_row(known[0]), tags=tuple(sorted(set(tags))), note=note)
            _write_row(session, row)

    def drop(self, runs: Sequence[str]) -> None:
        with self._database.transaction() as session:
            for statement in ("drop", "drop_tags"):
                session.many(statement, [(session.node, run) for run in runs])

    def baselines(self) -> Sequence[RunBaseline]:
        return [_read(partial(read, RunBaseline), body) for (body,) in self._found("baselines", ())]

    def put_baseline(self, baseline: RunBaseline) -> None:
        body = json.dumps(to_json(baseline))
        with self._database.transaction() as session:
            session.put("put_baseline", (session.node, baseline.name, baseline.at, body))

    def drop_baseline(self, name: str) -> bool:
        with self._database.transaction() as session:
            return bool(session.run("drop_baseline", (session.node, name)).rowcount)

    def close(self) -> None:
        self._database.close()

    def pattern(self, name: str) -> str:
        """Returns a database's search pattern for a name with * and ?."""
        raise NotImplementedError

    def _found(self, statement: str, parameters: Mapping[str, Any] | tuple[()]) -> list[Any]:
        with self._database.reading() as session:
            node = session.node
            searched = None if self._everywhere else node
            given = {**parameters, "node": searched} if isinstance(parameters, Mapping) else (node,)
            found: list[Any] = session.run(statement, given).fetchall()
        return found

    def _parameters(self, query: RunQuery) -> dict[str, Any]:
        return {
            "since": query.since,
            "until": query.until,
            "name": _searched(None if query.name is None else self.pattern(query.name)),
            "tag": _searched(query.tag),
            "group": _searched(query.group),
            "state": None if query.state is None else str(query.state),
            "on": _searched(query.node),
            "model": _searched(None if query.model is None else query.model.lower()),
            "words": _list([word.lower() for word in query.words]),
            "without": _list(sorted(query.without)),
            "not_user": _searched(query.not_user),
            "everything": query.sight.everything,
            "user": _searched(query.sight.user),
        }


def _write_row(session: TableSession, row: RunRow) -> None:
    """Writes a run and its tags; an earlier row of it is replaced."""
    others = seen_by(BLIND, row)
    session.put(
        "put",
        {
            "node": session.node,
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
            "words": texts_of(row),
            "open_words": texts_of(others),
            "body": json.dumps(to_json(row), separators=(",", ":")),
        },
    )
    session.put("drop_tags", (session.node, row.id))
    session.many("put_tag", [(session.node, row.id, tag) for tag in row.tags])


def read_row(body: str) -> RunRow:
    """Returns a stored run; Unavailable if it cannot be read."""
    found: RunRow = _read(row_from_json, body)
    return found


def _list(texts: Sequence[str]) -> str | None:
    return json.dumps([_searched(text) for text in texts]) if texts else None


def _searched(text: str | None) -> str | None:
    """Returns the text without lone surrogates and zeros, which no database takes."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "�")


def _read(reader: Any, body: str) -> Any:
    try:
        return reader(json.loads(body))
    except (ValueError, TypeError, Wrong) as exc:
        raise Unavailable(
            f"the index of runs cannot be read: {exc}",
            hint=REBUILD,
        ) from exc
