"""The runs that a server has: the rows of its index, the records that are open, and users' parts.

Where root runs the server, the runs of each user come from that user's reader.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Gone, Unavailable
from andon.model.run.record import RunRow, RunSample, RunState
from andon.node.run_schemas import RecordExtent, RunDetails, RunMarks, RunUpdate
from andon.node.watched.run_courses import CourseReader
from andon.node.watched.run_details import (
    MOST_MARKS,
    columns_between,
    details_of,
    details_without_record,
    marks_of,
    uses_of,
    where_recorded,
)
from andon.node.watched.users import Download, RunsOfUser, SharedUsers, only
from andon.ports import RunIndex
from andon.runs.growing import MarkLine, RunRecord, RunRecords, mark_lines, opened
from andon.runs.rules.curves import curves_of
from andon.runs.rules.fold import row_of
from andon.runs.rules.matching import RunCounts, RunListing, RunQuery, annotated

MOST_NAMED = 10_000
NOT_ALL = "the record is too long: only what happened in its first part is shown"
FRESH_SECONDS = 1.0
"""Requests within this time look for new records once."""


class FoundRuns(Struct, frozen=True):
    """The index after a refresh, and what the list lacks."""

    index: RunIndex | None = None
    without: frozenset[str] = frozenset()  # ids of runs that are not shown
    left: int = 0  # records that are still to be read
    problem: str | None = None  # why the list may be older than the records
    everywhere: RunIndex | None = None  # finds the runs of all nodes of a hub

    @property
    def _searched(self) -> RunIndex | None:
        return self.everywhere or self.index

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self._searched.find(self._shown(query)) if self._searched else ()

    def count(self, query: RunQuery) -> int:
        return self._searched.count(self._shown(query)) if self._searched else 0

    def counts(self, query: RunQuery) -> RunCounts:
        return self._searched.counts(self._shown(query)) if self._searched else RunCounts()

    def named(self, run: str) -> dict[str, RunRow]:
        """Returns the runs whose id begins with `run`."""
        found = self._searched.beginning(run, MOST_NAMED) if self._searched and run else ()
        if self.everywhere is not None:  # a record of another hub's machine is not here
            own = {row.id for row in (self.index.beginning(run, MOST_NAMED) if self.index else ())}
            found = [row if row.id in own else replace(row, path="") for row in found]
        return {row.id: row for row in found if row.id not in self.without}

    def of(self, user: str) -> "FoundRuns":
        """Returns the same without the runs of other users."""
        others = self.find(RunQuery(not_user=user))
        return replace(self, without=frozenset(row.id for row in others))

    @property
    def note(self) -> str | None:
        """Returns what the list lacks, if anything."""
        return self.problem or (
            f"{self.left} records have not been read yet" if self.left else None
        )

    def states(self) -> dict[str, str]:
        found = self.index.states() if self.index else {}
        return {run: state for run, state in found.items() if run not in self.without}

    def _shown(self, query: RunQuery) -> RunQuery:
        return replace(query, without=self.without)


class ServedRuns(RunsOfUser):
    """Fills NodeRuns with the runs in the index; `users` has those of other users. Calls read
    files: never make them in the event loop."""

    def __init__(
        self,
        refresh: Callable[[], FoundRuns],
        whose: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        users: SharedUsers | None = None,
        everywhere: Callable[[], RunIndex] | None = None,
    ) -> None:
        """`refresh` brings the index up to date, once for all requests within a second;
        `everywhere` opens one that finds the runs of all nodes of a hub."""
        self._refresh, self._monotonic, self._records = refresh, monotonic, RunRecords()
        self.whose, self.users, self.everywhere, self.clock = whose, users, everywhere, clock
        self.courses = CourseReader()
        self._lock = threading.Lock()
        self._found = FoundRuns()
        self._refreshed_at = float("-inf")

    def index(self, afresh: bool = False) -> FoundRuns:
        """Returns the index, brought up to date if that was not done within a second."""
        with self._lock:
            now = self._monotonic()
            if afresh or now - self._refreshed_at >= FRESH_SECONDS:
                self._found, self._refreshed_at = self._refresh(), now
            return self._found

    def listed(self, query: RunQuery) -> RunListing:
        found = self.index()
        return RunListing(list(found.find(query)), found.count(query), found.note)

    def resolve(self, word: str) -> RunRow:
        row = only(self.index().named(word), word) or only(self.index(True).named(word), word)
        if row is None:
            raise Gone(f"there is no run {word!r}", hint="to list them: andon runs")
        return row

    def record(self, row: RunRow) -> Path:
        self.download(row).file.close()
        return Path(row.path)

    def details(self, row: RunRow) -> RunDetails:
        if not row.path:
            return details_without_record(row, self.clock())
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh()
            read, now = read_of(record), self.clock()
            return details_of(current(row, record), record.fold, read, now)

    def marks(self, row: RunRow) -> RunMarks:
        if not row.path:
            return RunMarks(row.id, [], 0, where_recorded(row))
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh(0.0)
            begin = record.begin
        lines, whole = mark_lines(row.path, row.id)
        found = marks_of(begin, lines)
        omitted = max(0, len(found) - MOST_MARKS)
        return RunMarks(row.id, found[omitted:], omitted, None if whole else NOT_ALL)

    def annotate(self, row: RunRow, pinned: bool | None, note: str | None) -> RunRow:
        _check_is_local(row)
        index, (tags, text) = self.index(True).index, annotated(row, pinned, note)
        assert index is not None  # it has the row
        index.annotate(row.id, tags, text or None)
        return replace(row, tags=tags, note=text or None)

    def download(self, row: RunRow) -> Download:
        _check_is_local(row)
        file = opened(row.path, row.id)
        return Download(file, os.fstat(file.fileno()).st_size, Path(row.path).name)

    def update(self, row: RunRow) -> RunUpdate:
        _check_is_local(row)
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh(collecting=True)
            before, lines = record.take_new_lines()
            row, begin, now = current(row, record), record.begin, self.clock()
            going = row.state is RunState.RUNNING
            marks = marks_of(begin, [line for line in lines if isinstance(line, MarkLine)])
            return RunUpdate(
                id=row.id,
                state=row.state,
                since_bytes=before,
                read=read_of(record),
                duration_seconds=max(0.0, now - row.began) if going else row.duration_seconds,
                samples=record.fold.samples if row.samples is None else row.samples,
                series=columns_between(begin, [o for o in lines if isinstance(o, RunSample)]),
                curves=curves_of(begin.at, lines),
                uses=uses_of(begin, record.fold.summary()),
                marks=marks[-MOST_MARKS:],
                progress=row.progress,
            )


def _check_is_local(row: RunRow) -> None:
    """Raises Unavailable for a run whose record is on another node."""
    if not row.path:
        hint = f"on {row.node}: andon runs show {row.id}"
        raise Unavailable(f"the record of {row.id} is on {row.node}", hint=hint)


def current(row: RunRow, record: RunRecord) -> RunRow:
    """Returns the row as the record has it now: the index may not know of the end yet."""
    fold = record.fold
    if fold.end is None:
        whole = record.read_bytes == record.of_bytes
        return replace(row, samples=fold.samples) if whole else row
    if row.state is not RunState.RUNNING:
        return row
    known = row_of(record.begin, fold, row.path, alive=False)
    return replace(known, user=row.user, tags=row.tags, note=row.note)


def read_of(record: RunRecord) -> RecordExtent:
    unreadable, problem = record.lines.unreadable, record.lines.first_problem
    return RecordExtent(record.read_bytes, record.of_bytes, unreadable, problem)
