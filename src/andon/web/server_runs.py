"""The server's runs: the rows of the index, and the records that clients have open."""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from andon.core.access.roles import Sight
from andon.core.runs.fold import row_of
from andon.core.runs.matching import RunQuery
from andon.errors import Conflict, Denied, Gone
from andon.model.run import RunLine, RunRow, RunSample, RunState
from andon.web.answers.run_details import (
    MOST_MARKS,
    columns_between,
    details_of,
    marks_of,
    uses_of,
)
from andon.web.answers.run_schemas import RecordExtent, RunDetails, RunMarks, RunPage, RunUpdate
from andon.web.answers.runs import page_of
from andon.web.run_records import (
    Happening,
    RunRecord,
    RunRecords,
    happenings,
    name_of,
    opened,
)

FRESH_SECONDS = 1.0
"""Requests within this time share one reading of the index."""
NOT_ALL = "the record is too long: only what happened in its first part is shown"


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """All runs of the index; the same object while nothing has changed."""

    rows: Sequence[RunRow]
    left: int = 0  # records that are still to be read
    problem: str | None = None  # why the list may be older than the records


@dataclass(frozen=True, slots=True)
class Download:
    """A record to be sent."""

    file: BinaryIO
    size: int
    name: str


@dataclass(frozen=True, slots=True)
class RunNews:
    """What is new since the last time, by who sees it."""

    state: RunState
    read_bytes: int
    updates: Mapping[Sight, RunUpdate]


class ServerRuns:
    """Every method reads files: none is called from the event loop."""

    def __init__(
        self,
        rows: Callable[[], FoundRuns],
        whose: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rows` brings the index up to date; requests within a second share what it found."""
        self._read_rows, self._whose = rows, whose
        self._clock, self._monotonic = clock, monotonic
        self._records = RunRecords()
        self._lock = threading.Lock()
        self._rows: dict[str, RunRow] = {}
        self._found: FoundRuns | None = None
        self._looked = float("-inf")

    def page(self, sight: Sight, query: RunQuery, search: str) -> RunPage:
        rows = list(self.rows().values())
        found = self._found or FoundRuns(())
        unread = f"{found.left} records have not been read yet" if found.left else None
        note = found.problem or unread
        return page_of(sight, rows, query, search, self._clock(), self._whose, note)

    def details(self, sight: Sight, run: str) -> RunDetails:
        row = self.find(run)
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh()
            now = self._clock()
            return details_of(
                sight, current(row, record), record.fold, record.series,
                read_of(record), now,
            )  # fmt: skip

    def marks(self, sight: Sight, run: str) -> RunMarks:
        row = self.find(run)
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh(0.0)
            begin = record.begin
        lines, whole = happenings(row.path, row.id)
        found = marks_of(begin, sight, lines)
        omitted = max(0, len(found) - MOST_MARKS)
        return RunMarks(row.id, found[omitted:], omitted, None if whole else NOT_ALL)

    def download(self, sight: Sight, run: str) -> Download:
        """The record has command, folders and output: only for those who may see them."""
        row = self.find(run)
        if not sight.shows(row.user):
            whose = row.user or "an unknown user"
            raise Denied(f"the record of {row.id} is for {whose}", hint="sign in: andon open")
        file = opened(row.path, row.id)
        return Download(file, os.fstat(file.fileno()).st_size, name_of(row.path))

    def news(self, run: str, sights: Collection[Sight]) -> RunNews:
        """What is new in a record since this was last asked, as each of them sees it."""
        row = self.find(run)
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh(keeping=True)
            before, lines = record.take_news()
            row, now = current(row, record), self._clock()
            updates = {s: update_of(s, row, record, before, lines, now) for s in sights}
            return RunNews(row.state, record.read_bytes, updates)

    def find(self, run: str) -> RunRow:
        """By its id, or the beginning of one."""
        found = named(self.rows(), run) or named(self.rows(afresh=True), run)
        if len(found) > 1:
            raise Conflict(f"{len(found)} runs begin with {run!r}", hint="give more of the id")
        if not found:
            raise Gone(f"there is no run {run!r} here", hint="to list them: andon runs")
        return found[0]

    def rows(self, afresh: bool = False) -> dict[str, RunRow]:
        """All runs by their id."""
        with self._lock:
            now = self._monotonic()
            if afresh or now - self._looked >= FRESH_SECONDS:
                before, self._found = self._found, self._read_rows()
                if before is None or before.rows is not self._found.rows:
                    self._rows = {row.id: row for row in self._found.rows}
                self._looked = now
            return self._rows


def named(rows: Mapping[str, RunRow], run: str) -> list[RunRow]:
    """The run with this id, else those whose id begins so."""
    if run in rows:
        return [rows[run]]
    return [row for name, row in rows.items() if run and name.startswith(run)]


def current(row: RunRow, record: RunRecord) -> RunRow:
    """The row as the record says it now: the index may not know of the end yet."""
    fold = record.fold
    if fold.end is None:
        whole = record.read_bytes == record.of_bytes
        return replace(row, samples=fold.samples) if whole else row
    if row.state is not RunState.RUNNING:
        return row
    known = row_of(record.begin, fold, row.path, alive=False)
    return replace(known, tags=row.tags, note=row.note)


def read_of(record: RunRecord) -> RecordExtent:
    return RecordExtent(record.read_bytes, record.of_bytes, record.unreadable, record.problem)


def update_of(
    sight: Sight, row: RunRow, record: RunRecord, before: int, lines: Sequence[RunLine], now: float
) -> RunUpdate:
    """The live event: what came since the last one."""
    begin = record.begin
    samples = [line for line in lines if isinstance(line, RunSample)]
    marks = [line for line in lines if isinstance(line, Happening)]
    going = row.state is RunState.RUNNING
    return RunUpdate(
        id=row.id,
        state=row.state,
        since_bytes=before,
        read=read_of(record),
        duration_seconds=max(0.0, now - row.began) if going else row.duration_seconds,
        samples=record.fold.samples if row.samples is None else row.samples,
        series=columns_between(begin, samples),
        uses=uses_of(begin, record.fold.summary()),
        marks=marks_of(begin, sight, marks)[-MOST_MARKS:],
    )
