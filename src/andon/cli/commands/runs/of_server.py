"""The runs of a server instead of this machine's, for `andon runs --url`."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from andon.cli.commands.runs.opened import RunListing
from andon.cli.options import chosen
from andon.cli.terminal import notice
from andon.core.runs.matching import RunQuery, called, matches
from andon.engine.records.finder import LAST
from andon.errors import Gone, Invalid
from andon.model.json_fields import Wrong
from andon.model.run import RunRow
from andon.model.run_wire import row_from_json

if TYPE_CHECKING:
    from andon.cli.remote import Server
    from andon.model.wire import Json

PAGE = 100
MOST_BYTES = 512 * 1024 * 1024


class RemoteRuns:
    """Asks for pages of the list, and gets a record when it is read; the server says who may."""

    def __init__(self, server: "Server", context: click.Context | None = None) -> None:
        """`context` is that of a command which reads records: with it they are deleted."""
        self._server, self._context = server, context
        self._folder: Path | None = None

    def listed(self, query: RunQuery) -> RunListing:
        page = self._page(query, 0, 1)
        rows = list(self.find(query))
        ours = query.name is not None or query.since is not None or query.text is not None
        note = page.get("note")
        total = len(rows) if ours else int(page["total"])
        return RunListing(rows, total, note if isinstance(note, str) else None)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        rows: list[RunRow] = []
        for row in self._each(query):
            if query.since is not None and row.began < query.since:
                break  # the latest come first
            if matches(row, query):
                rows.append(row)
            if query.limit is not None and len(rows) >= query.limit:
                break
        return rows

    def is_id(self, word: str) -> bool:
        try:
            return self._one(word).id == word
        except Gone:
            return False

    def resolve(self, word: str) -> RunRow:
        if word not in LAST:
            return self._called(word) or self._one(word)
        for row in self._each(RunQuery(limit=1)):
            return row
        raise Gone("there are no runs yet", hint="andon run records one")

    def _called(self, word: str) -> RunRow | None:
        """By its name, unless a run has exactly this id."""
        if not word.isprintable() or "/" in word or self.is_id(word):
            return None
        found = called(word, self.find(RunQuery(name=word)))
        if found is not None and found[1] is not None:
            notice(found[1], chosen())
        return None if found is None else found[0]

    def with_record(self, row: RunRow) -> RunRow:
        """Its record in a temporary file, until the command ends."""
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix="andon-")
            assert self._context is not None
            self._context.call_on_close(made.cleanup)
            self._folder = Path(made.name)
        path = self._folder / f"{row.id}.jsonl"
        path.write_bytes(self._server.fetch(f"/api/runs/{quote(row.id)}/record", MOST_BYTES))
        return replace(row, path=str(path))

    def _each(self, query: RunQuery) -> Iterator[RunRow]:
        size, offset = min(PAGE, query.limit or PAGE), 0
        while True:
            page = self._page(query, offset, size)
            items = page.get("items")
            found = items if isinstance(items, list) else []
            yield from map(self._row, found)
            offset += len(found)
            if len(found) < size:
                return

    def _page(self, query: RunQuery, offset: int, limit: int) -> "Json":
        state = None if query.state is None else str(query.state)
        return self._server.get(
            "/api/runs", tag=query.tag, group=query.group, state=state, offset=offset, limit=limit
        )

    def _one(self, word: str) -> RunRow:
        if not word or "/" in word:
            raise Invalid(f"{word[:40]!r} is not a run's id", hint="with --url a RUN is an id")
        return self._row(self._server.get(f"/api/runs/{quote(word, safe='')}"))

    def _row(self, value: "Json") -> RunRow:
        """As an index has it; what is hidden from this user is not there."""
        try:
            whole = {
                **value,
                "path": f"{self._server.url}/api/runs/{value['id']}",
                "no_samples_reason": value["telemetry_reason"],
                "params": value["params"] or {},
            }
            return row_from_json(whole)
        except (Wrong, KeyError, TypeError) as exc:
            raise self._server.of_another_version(f"a run is not as expected: {exc}") from exc
