"""The server's runs: the rows of the index, and the records that clients have open.

Where root runs the server, the runs of each user come from that user's reader.
"""

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from andon.access.roles import Sight
from andon.errors import AndonError, Conflict, Denied, Unavailable
from andon.model.run.record import RunLine, RunRow, RunSample, RunState
from andon.node.seen.sights import not_seen
from andon.ports import RunIndex
from andon.runs.growing import (
    Happening,
    RunRecord,
    RunRecords,
    happenings,
    opened,
)
from andon.runs.rules.fold import row_of
from andon.runs.rules.matching import RunCounts, RunQuery, counted, select
from andon.web.answers.job_schemas import PageScope
from andon.web.answers.run_details import (
    MOST_MARKS,
    columns_between,
    details_of,
    marks_of,
    uses_of,
)
from andon.web.answers.run_schemas import (
    RecordExtent,
    RunCourses,
    RunDetails,
    RunMarks,
    RunPage,
    RunUpdate,
)
from andon.web.answers.runs import MOST_LISTED, page_of
from andon.web.runs.courses import CourseReader
from andon.web.users.files import SharedFiles, UserFiles, UserRecord

MOST_NAMED = 10_000
FRESH_SECONDS = 1.0
"""Requests within this time look for new records once."""
NOT_ALL = "the record is too long: only what happened in its first part is shown"


class FoundRuns(Struct, frozen=True):
    """An index that has been brought up to date."""

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
        """Returns the runs whose id begins with this."""
        found = self._searched.beginning(run, MOST_NAMED) if self._searched and run else ()
        return {row.id: row for row in found if row.id not in self.without}

    def states(self) -> dict[str, str]:
        found = self.index.states() if self.index else {}
        return {run: state for run, state in found.items() if run not in self.without}

    def _shown(self, query: RunQuery) -> RunQuery:
        return replace(query, without=self.without)


class Download(Struct, frozen=True):
    """A record to be sent."""

    file: BinaryIO | UserRecord
    size: int
    name: str


class RunNews(Struct, frozen=True):
    """New lines of a run, for callers with the same rights."""

    state: RunState
    read_bytes: int
    updates: Mapping[Sight, RunUpdate]


class ServerRuns:
    """The runs of a server; every method reads files, so none is called from the event loop."""

    def __init__(
        self,
        look: Callable[[], FoundRuns],
        whose: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        users: SharedFiles | None = None,
        everywhere: Callable[[], RunIndex] | None = None,
    ) -> None:
        """`look` brings the index up to date, once for all requests within a second. `everywhere`
        opens one that finds the runs of all nodes of a hub."""
        self._look, self._whose, self._users, self._everywhere = look, whose, users, everywhere
        self._clock, self._monotonic = clock, monotonic
        self._records, self._courses = RunRecords(), CourseReader(self.details)
        self._lock = threading.Lock()
        self._found = FoundRuns()
        self._looked = float("-inf")

    def page(self, sight: Sight, query: RunQuery, search: str) -> RunPage:
        seen, every = self.seen(sight), RunQuery(sight=sight)
        limit, words = query.limit or MOST_LISTED, tuple(search.split())
        query = replace(query, sight=sight, words=words, limit=limit)
        rows, total = seen.rows(query)
        counts = seen.found.counts(every)
        if seen.others:
            counts = counts.plus(counted(seen.rows_of_others(), every))
        whose = self._whose_in(sight, seen.scope)
        page = page_of(sight, rows, total, counts, query, self._clock(), whose, seen.note)
        return replace(page, scope=seen.scope, shared=self._users is not None)

    def _whose_in(self, sight: Sight, scope: PageScope) -> str:
        if scope is PageScope.OWN:
            return f"The runs of {sight.user} on this machine"
        if scope is PageScope.EVERYONE:
            others = "those of everyone who signed in here, or holds or waits for GPUs"
            return f"{self._whose}; and {others}"
        return self._whose

    def seen(self, sight: Sight, afresh: bool = False) -> "VisibleRuns":
        """A user's own runs, everyone's for an owner, and the server user's for anyone else."""
        if self._users is not None and not sight.everything and sight.uid is not None:
            files = self._users.of(sight.uid)
            if files is not None:
                rows = {row.id: (row, files) for row in files.runs()}
                return VisibleRuns(FoundRuns(), rows, PageScope.OWN)
        found = self.look(afresh)
        if self._everywhere is not None and (sight.everything or sight.user is None):
            # An account of this machine is not the one of the same name on another.
            found = replace(found, everywhere=self._everywhere())
        if self._users is None or not sight.everything:
            return VisibleRuns(found, {}, PageScope.SERVER)
        others, notes = dict[str, tuple[RunRow, UserFiles]](), list[str]()
        for files in self._users.known():
            try:
                others |= {row.id: (row, files) for row in files.runs() if row.id not in others}
            except AndonError as error:
                notes.append(error.reason)
        return VisibleRuns(found, others, PageScope.EVERYONE, tuple(notes))

    def details(self, sight: Sight, run: str) -> RunDetails:
        row, files = self._with_record(run, sight)
        if files is not None:
            return files.run(row.id)
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh()
            now = self._clock()
            return details_of(
                sight, current(row, record), record.fold, record.series,
                read_of(record), now,
            )  # fmt: skip

    def courses(self, sight: Sight, runs: Sequence[str]) -> RunCourses:
        """Returns the utilisation of these runs in a few points each, as far as there is time."""
        return self._courses.of(sight, runs)

    def marks(self, sight: Sight, run: str) -> RunMarks:
        row, files = self._with_record(run, sight)
        if files is not None:
            return files.marks(row.id)
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh(0.0)
            begin = record.begin
        lines, whole = happenings(row.path, row.id)
        found = marks_of(begin, sight.shows(row.user), lines)
        omitted = max(0, len(found) - MOST_MARKS)
        return RunMarks(row.id, found[omitted:], omitted, None if whole else NOT_ALL)

    def download(self, sight: Sight, run: str) -> Download:
        """The record, which has command, folders and output: only for callers who may see them."""
        row, files = self._with_record(run, sight)
        if files is not None:
            return Download(*files.record(row.id))
        if not sight.shows(row.user):
            whose = row.user or "an unknown user"
            raise Denied(f"the record of {row.id} is for {whose}", hint="sign in: andon open")
        file = opened(row.path, row.id)
        return Download(file, os.fstat(file.fileno()).st_size, Path(row.path).name)

    def news(self, run: str, sights: Collection[Sight]) -> list[RunNews]:
        """Returns what is new in a record since the last call, as each caller sees it; one for
        each user who has a run of this name."""
        by_owner: dict[UserFiles | None, tuple[RunRow, list[Sight]]] = {}
        for sight in sights:
            with suppress(AndonError):  # it was removed, or is another's: the page says so
                row, files = self.find(run, sight)
                by_owner.setdefault(files, (row, []))[1].append(sight)
        return [
            self._news(row, seeing) if files is None else news_of(files, row.id, seeing)
            for files, (row, seeing) in by_owner.items()
        ]

    def _news(self, row: RunRow, sights: Collection[Sight]) -> RunNews:
        record = self._records.of(row.id, row.path)
        with record.lock:
            record.refresh(keeping=True)
            before, lines = record.take_news()
            row, now = current(row, record), self._clock()
            updates = {s: update_of(s, row, record, before, lines, now) for s in sights}
            return RunNews(row.state, record.read_bytes, updates)

    def _with_record(self, run: str, sight: Sight) -> tuple[RunRow, UserFiles | None]:
        """Finds a run whose record is on this machine; raises Unavailable for another node's."""
        row, files = self.find(run, sight)
        if files is None and not row.path:
            hint = f"on {row.node}: andon runs show {row.id}"
            raise Unavailable(f"the record of {row.id} is on {row.node}", hint=hint)
        return row, files

    def find(self, run: str, sight: Sight) -> tuple[RunRow, UserFiles | None]:
        """Finds a run by its id or a prefix, and whose files it is in, if not the server's."""
        found = self.seen(sight).named(run) or self.seen(sight, True).named(run)
        if len(found) > 1:
            raise Conflict(f"{len(found)} runs begin with {run!r}", hint="give more of the id")
        if not found:
            raise not_seen(f"run {run!r}", sight, self._users is not None, "andon runs")
        return found[0]

    def rows(self, limit: int) -> Sequence[RunRow]:
        """The latest runs of the index."""
        return self.look().find(RunQuery(limit=limit))

    def look(self, afresh: bool = False) -> FoundRuns:
        """Returns the index, brought up to date if that was not done within a second."""
        with self._lock:
            now = self._monotonic()
            if afresh or now - self._looked >= FRESH_SECONDS:
                self._found, self._looked = self._look(), now
            return self._found


class VisibleRuns(Struct, frozen=True):
    """The runs that one caller may see: those of the index, and those in files of other users."""

    found: FoundRuns
    others: Mapping[str, tuple[RunRow, UserFiles]]
    scope: PageScope
    notes: tuple[str, ...] = ()

    def named(self, run: str) -> list[tuple[RunRow, UserFiles | None]]:
        """Returns the run with this id, else those whose id begins with it."""
        found: dict[str, tuple[RunRow, UserFiles | None]] = {
            name: row for name, row in self.others.items() if run and name.startswith(run)
        }
        found |= {name: (row, None) for name, row in self.found.named(run).items()}
        return [found[run]] if run in found else list(found.values())

    def rows(self, query: RunQuery) -> tuple[Sequence[RunRow], int]:
        """Returns the rows of one page, and how many match the query."""
        rows, total = self.found.find(query), self.found.count(query)
        if not self.others:
            return rows, total
        others, limit = self.rows_of_others(), query.limit
        first = replace(query, offset=0, limit=None if limit is None else query.offset + limit)
        rows = select([*self.found.find(first), *others], query)
        return rows, total + counted(others, query).runs

    @property
    def note(self) -> str | None:
        """What is missing."""
        unread = f"{self.found.left} records have not been read yet" if self.found.left else None
        return "; ".join(filter(None, (self.found.problem or unread, *self.notes))) or None

    def rows_of_others(self) -> list[RunRow]:
        """Returns the runs in files of other users that the index does not have."""
        known = self.found.states()
        return [row for row, _ in self.others.values() if row.id not in known]

    def states(self) -> dict[str, str]:
        """Returns the state of each run, by id."""
        others = {run: str(row.state) for run, (row, _) in self.others.items()}
        return others | self.found.states()


def news_of(files: UserFiles, run: str, sights: Collection[Sight]) -> RunNews:
    update = files.news(run)
    return RunNews(update.state, update.read.bytes, dict.fromkeys(sights, update))


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
    return RecordExtent(record.read_bytes, record.of_bytes, record.unreadable, record.problem)


def update_of(
    sight: Sight, row: RunRow, record: RunRecord, before: int, lines: Sequence[RunLine], now: float
) -> RunUpdate:
    """The live event: what came since the last one."""
    begin = record.begin
    samples = [line for line in lines if isinstance(line, RunSample)]
    marks = [line for line in lines if isinstance(line, Happening)]
    going, shown = row.state is RunState.RUNNING, sight.shows(row.user)
    return RunUpdate(
        id=row.id,
        state=row.state,
        since_bytes=before,
        read=read_of(record),
        duration_seconds=max(0.0, now - row.began) if going else row.duration_seconds,
        samples=record.fold.samples if row.samples is None else row.samples,
        series=columns_between(begin, samples),
        uses=uses_of(begin, record.fold.summary()),
        marks=marks_of(begin, shown, marks)[-MOST_MARKS:],
        progress=row.progress if shown else None,
    )
