"""The runs of a server: pages of its list, and downloaded records."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from andon.errors import Gone, Invalid, Unavailable
from andon.model.codec import Whole, Wrong, read
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.model.wire import Json
from andon.node.rest import Notify, RestServer
from andon.runs.index import LAST
from andon.runs.rules.matching import RunListing, RunQuery, called, matches

PAGE = 100
MOST_RUNS = 100_000
PAGES_SECONDS = 60.0  # for all pages of a list together
MOST_BYTES = 512 * 1024 * 1024


class RemoteRuns:
    """Reads pages of a server's list, and downloads records; the server checks rights."""

    def __init__(self, server: RestServer, notify: Notify = lambda _: None) -> None:
        """`notify` is called when a name means the newest of several runs."""
        self._server, self._notify = server, notify
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Deletes the records that were downloaded."""
        if self._folder is not None:
            self._folder.cleanup()

    def listed(self, query: RunQuery) -> RunListing:
        page = self._page(query, 0, 1)
        rows = list(self.find(query))
        ours = query.name is not None or query.since is not None or bool(query.words)
        note = page.get("note")
        total = len(rows) if ours else max(self._total(page), len(rows))
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
        """Returns the run of this name, unless a run has exactly this id."""
        if not word.isprintable() or "/" in word or self.is_id(word):
            return None
        found = called(word, self.find(RunQuery(name=word)))
        if found is not None and found[1] is not None:
            self._notify(found[1])
        return None if found is None else found[0]

    def record(self, row: RunRow) -> Path:
        """Downloads the run's record to a private folder until the node is closed; the server does
        not choose the file's name."""
        with _keeping():
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="andon-")
            descriptor, path = tempfile.mkstemp(".jsonl", dir=self._folder.name)

        def keep(piece: bytes) -> None:
            with _keeping():
                file.write(piece)

        with os.fdopen(descriptor, "wb", buffering=0) as file:
            self._server.fetch(f"/api/runs/{quote(row.id)}/record", MOST_BYTES, keep)
        return Path(path)

    def _each(self, query: RunQuery) -> Iterator[RunRow]:
        """Yields each run once: a run that begins meanwhile moves the others to a later page."""
        size, offset = min(PAGE, query.limit or PAGE), 0
        seen: set[str] = set()
        until = time.monotonic() + PAGES_SECONDS
        while True:
            page = self._page(query, offset, size)
            items = page.get("items")
            rows = [self._row(one) for one in items[:size]] if isinstance(items, list) else []
            fresh = [row for row in rows if row.id not in seen]
            seen |= {row.id for row in fresh}
            yield from fresh
            offset += len(rows)
            if len(rows) < size or not fresh or offset >= self._total(page):
                return
            if time.monotonic() > until:
                reason = f"{self._server.url} has sent {offset} runs in {PAGES_SECONDS:g} s"
                raise Unavailable(reason, hint="ask for fewer: -n N")

    def _total(self, page: Json) -> int:
        try:
            return min(read(Whole, page.get("total")), MOST_RUNS)
        except Wrong as exc:
            raise self._server.of_another_version(f"the list of runs: {exc}") from exc

    def _page(self, query: RunQuery, offset: int, limit: int) -> Json:
        state = None if query.state is None else str(query.state)
        return self._server.get(
            "/api/runs", tag=query.tag, group=query.group, state=state, offset=offset, limit=limit
        )

    def _one(self, word: str) -> RunRow:
        if not word or "/" in word:
            raise Invalid(f"{word[:40]!r} is not a run's id", hint="with --url a RUN is an id")
        return self._row(self._server.get(f"/api/runs/{quote(word, safe='')}"))

    def _row(self, value: Json) -> RunRow:
        """Decodes a row as an index would have it; fields hidden from this user are absent."""
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


@contextmanager
def _keeping() -> Iterator[None]:
    """Raises a failure to write here as Unavailable, so that the server is not blamed."""
    try:
        yield
    except OSError as exc:
        raise Unavailable(
            f"the record cannot be kept in a temporary file: {exc.strerror or exc}",
            hint="set TMPDIR to a folder with enough space",
        ) from exc
