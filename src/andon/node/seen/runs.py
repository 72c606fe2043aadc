"""The runs of a server, as one caller may see them."""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from andon.access.roles import ALL_SEEING, BLIND, Sight
from andon.errors import AndonError, Conflict, Denied, Gone, Unavailable
from andon.model.run.record import RunLine, RunRow, RunSample, RunState
from andon.node.seen.job_schemas import PageScope
from andon.node.seen.run_details import (
    MOST_MARKS,
    columns_between,
    details_of,
    details_without_record,
    marks_of,
    uses_of,
    where_recorded,
)
from andon.node.seen.run_list import MOST_LISTED, page_of
from andon.node.seen.run_schemas import (
    RecordExtent,
    RunCourses,
    RunDetails,
    RunMarks,
    RunPage,
    RunUpdate,
)
from andon.node.seen.sights import not_seen
from andon.node.watched.runs import FoundRuns, ServerRuns
from andon.node.watched.users import Download, RunsOfUser
from andon.runs.growing import Happening, RunRecord, happenings, opened
from andon.runs.rules.fold import row_of
from andon.runs.rules.matching import RunListing, RunQuery, counted, seen_by, select

NOT_ALL = "the record is too long: only what happened in its first part is shown"


class RunNews(Struct, frozen=True):
    """New lines of a run, for callers with the same rights."""

    state: RunState
    read_bytes: int
    updates: Mapping[Sight, RunUpdate]


class SeenRuns:
    """A user's own runs, everyone's for an owner, and the server user's for anyone else. Every call
    reads files, so none is made from the event loop."""

    def __init__(self, runs: ServerRuns, sight: Sight = ALL_SEEING) -> None:
        self._runs, self.sight = runs, sight

    def seen_by(self, sight: Sight) -> "SeenRuns":
        return SeenRuns(self._runs, sight)

    def own(self, limit: int) -> Sequence[RunRow]:
        """Returns the latest of the server's own user: none of other users or nodes."""
        return self._runs.rows(limit)

    def states(self) -> dict[str, str]:
        """Returns the state of each run, by id."""
        return self.visible().states()

    def listed(self, query: RunQuery) -> RunListing:
        seen = self.visible()
        rows, total = seen.rows(replace(query, sight=self.sight))
        return RunListing([seen_by(self.sight, row) for row in rows], total, seen.note)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        try:
            return self.resolve(word).id == word
        except (Gone, Conflict):
            return False

    def resolve(self, word: str) -> RunRow:
        return seen_by(self.sight, self.one(word)[0])

    def record(self, row: RunRow) -> Path:
        self.download(row.id).file.close()
        return Path(row.path)

    def page(self, query: RunQuery, search: str) -> RunPage:
        runs, sight, seen = self._runs, self.sight, self.visible()
        every, limit = RunQuery(sight=sight), query.limit or MOST_LISTED
        query = replace(query, sight=sight, words=tuple(search.split()), limit=limit)
        rows, total = seen.rows(query)
        counts = seen.found.counts(every)
        if seen.others:
            counts = counts.plus(counted(seen.rows_of_others(), every))
        whose = self._whose(seen.scope)
        page = page_of(sight, rows, total, counts, query, runs.clock(), whose, seen.note)
        return replace(page, scope=seen.scope, shared=runs.users is not None)

    def _whose(self, scope: PageScope) -> str:
        if scope is PageScope.OWN:
            return f"The runs of {self.sight.user} on this machine"
        if scope is PageScope.EVERYONE:
            others = "those of everyone who signed in here, or holds or waits for GPUs"
            return f"{self._runs.whose}; and {others}"
        return self._runs.whose

    def details(self, run: str) -> RunDetails:
        row, files = self.one(run)
        if files is not None:
            return files.details(row.id)
        if not row.path:
            return details_without_record(self.sight, row, self._runs.clock())
        record = self._runs.records.of(row.id, row.path)
        with record.lock:
            record.refresh()
            return details_of(
                self.sight, current(row, record), record.fold, record.series,
                read_of(record), self._runs.clock(),
            )  # fmt: skip

    def courses(self, runs: Sequence[str]) -> RunCourses:
        """Returns the utilisation of these runs in a few points each, as far as there is time."""
        return self._runs.courses.of(self.sight, runs, self.details)

    def marks(self, run: str) -> RunMarks:
        row, files = self.one(run)
        if files is not None:
            return files.marks(row.id)
        if not row.path:
            return RunMarks(row.id, [], 0, where_recorded(row))
        record = self._runs.records.of(row.id, row.path)
        with record.lock:
            record.refresh(0.0)
            begin = record.begin
        lines, whole = happenings(row.path, row.id)
        found = marks_of(begin, self.sight.shows(row.user), lines)
        omitted = max(0, len(found) - MOST_MARKS)
        return RunMarks(row.id, found[omitted:], omitted, None if whole else NOT_ALL)

    def check_signed_in(self) -> None:
        """Raises Denied for who may download nothing, before anything is read: anyone can ask."""
        if self.sight == BLIND:
            raise Denied(
                "records are only for users who have signed in", hint="sign in: andon open"
            )

    def download(self, run: str) -> Download:
        """The record, which has command, folders and output: only for callers who may see them."""
        row, files = self._with_record(run)
        if files is not None:
            return files.download(row.id)
        if not self.sight.shows(row.user):
            whose = row.user or "an unknown user"
            raise Denied(f"the record of {row.id} is for {whose}", hint="sign in: andon open")
        file = opened(row.path, row.id)
        return Download(file, os.fstat(file.fileno()).st_size, Path(row.path).name)

    def update(self, run: str) -> RunUpdate:
        """Returns what is new in a record since the last call."""
        for found in news(run, [self]):
            return found.updates[self.sight]
        raise Gone(f"there is no run {run!r} here", hint="to list them: andon runs")

    def news_for(self, row: RunRow, sights: Collection[Sight]) -> RunNews:
        record = self._runs.records.of(row.id, row.path)
        with record.lock:
            record.refresh(keeping=True)
            before, lines = record.take_news()
            row, now = current(row, record), self._runs.clock()
            updates = {s: update_of(s, row, record, before, lines, now) for s in sights}
            return RunNews(row.state, record.read_bytes, updates)

    def _with_record(self, run: str) -> tuple[RunRow, RunsOfUser | None]:
        """Finds a run whose record is on this machine; raises Unavailable for another node's."""
        row, files = self.one(run)
        if files is None and not row.path:
            hint = f"on {row.node}: andon runs show {row.id}"
            raise Unavailable(f"the record of {row.id} is on {row.node}", hint=hint)
        return row, files

    def one(self, run: str) -> tuple[RunRow, RunsOfUser | None]:
        """Finds a run by its id or a prefix, and whose files it is in, if not the server's."""
        found = self.visible().named(run) or self.visible(True).named(run)
        if len(found) > 1:
            raise Conflict(f"{len(found)} runs begin with {run!r}", hint="give more of the id")
        if not found:
            raise not_seen(f"run {run!r}", self.sight, self._runs.users is not None, "andon runs")
        return found[0]

    def visible(self, afresh: bool = False) -> "VisibleRuns":
        runs, sight = self._runs, self.sight
        if runs.users is not None and not sight.everything and sight.uid is not None:
            user = runs.users.of(sight.uid)
            if user is not None:
                rows = {row.id: (row, user.runs) for row in user.runs.find(RunQuery())}
                return VisibleRuns(FoundRuns(), rows, PageScope.OWN)
        found = runs.look(afresh)
        if runs.everywhere is not None and (sight.everything or sight.user is None):
            # An account of this machine is not the one of the same name on another.
            found = replace(found, everywhere=runs.everywhere())
        if runs.users is None or not sight.everything:
            return VisibleRuns(found, {}, PageScope.SERVER)
        others, notes = dict[str, tuple[RunRow, RunsOfUser]](), list[str]()
        for user in runs.users.known():
            try:
                found_rows = user.runs.find(RunQuery())
                others |= {r.id: (r, user.runs) for r in found_rows if r.id not in others}
            except AndonError as error:
                notes.append(error.reason)
        return VisibleRuns(found, others, PageScope.EVERYONE, tuple(notes))


class VisibleRuns(Struct, frozen=True):
    """The runs that one caller may see: those of the index, and those in files of other users."""

    found: FoundRuns
    others: Mapping[str, tuple[RunRow, RunsOfUser]]
    scope: PageScope
    notes: tuple[str, ...] = ()

    def named(self, run: str) -> list[tuple[RunRow, RunsOfUser | None]]:
        """Returns the run with this id, else those whose id begins with it."""
        found: dict[str, tuple[RunRow, RunsOfUser | None]] = {
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


def news(run: str, callers: Collection[SeenRuns]) -> list[RunNews]:
    """Returns what is new in a record since the last call, as each caller of the same server sees
    it; one for each user who has a run of this name."""
    by_owner: dict[RunsOfUser | None, tuple[SeenRuns, RunRow, list[Sight]]] = {}
    for caller in callers:
        with suppress(AndonError):  # it was removed, or is another's: the page says so
            row, files = caller.one(run)
            by_owner.setdefault(files, (caller, row, []))[2].append(caller.sight)
    return [
        caller.news_for(row, sights) if files is None else news_of(files, row.id, sights)
        for files, (caller, row, sights) in by_owner.items()
    ]


def news_of(files: RunsOfUser, run: str, sights: Collection[Sight]) -> RunNews:
    update = files.update(run)
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
