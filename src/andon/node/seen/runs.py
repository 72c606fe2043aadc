"""The runs of a server, as one caller may see them."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from andon.access.roles import ANONYMOUS, BLIND, Action, Identity, Sight, refusal_for
from andon.errors import AndonError, Denied
from andon.model.run.record import RunRow
from andon.node.job_schemas import PageScope
from andon.node.port import NodeRuns
from andon.node.run_schemas import RunCourses, RunDetails, RunEntry, RunMarks, RunPage, RunUpdate
from andon.node.seen.sights import (
    details_seen_by,
    entry_seen_by,
    marks_seen_by,
    not_seen,
    update_seen_by,
)
from andon.node.watched.run_list import MOST_LISTED, choices_of, entry_of
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.node.watched.users import Download, RunsOfUser, UserNode, only
from andon.runs.rules.matching import RunListing, RunQuery, counted, seen_by, select


class SeenRuns(NodeRuns):
    """The caller's own runs, everyone's for an owner, and the server user's for anyone else. Calls
    read files: never make them in the event loop."""

    def __init__(self, runs: ServedRuns, sight: Sight, who: Identity = ANONYMOUS) -> None:
        self._runs, self.sight, self._who = runs, sight, who

    def states(self) -> dict[str, str]:
        """Returns the state of each run, by id."""
        return self.visible().states()

    def listed(self, query: RunQuery) -> RunListing:
        seen = self.visible()
        rows, total = seen.rows(replace(query, sight=self.sight))
        return RunListing([seen_by(self.sight, row) for row in rows], total, seen.note)

    def resolve(self, word: str) -> RunRow:
        return seen_by(self.sight, self.one(word)[0])

    def record(self, row: RunRow) -> Path:
        found, runs = self._readable(row.id)
        return runs.record(found)

    def page(self, query: RunQuery, search: str) -> RunPage:
        runs, sight, seen = self._runs, self.sight, self.visible()
        every, limit = RunQuery(sight=sight), query.limit or MOST_LISTED
        query = replace(query, sight=sight, words=tuple(search.split()), limit=limit)
        rows, total = seen.rows(query)
        counts = seen.found.counts(every)
        if seen.others:
            counts = counts.plus(counted(seen.rows_of_others(), every))
        now = runs.clock()
        return RunPage(
            items=[entry_seen_by(sight, entry_of(row, now)) for row in rows],
            total=total,
            all=counts.runs,
            offset=query.offset,
            limit=limit,
            choices=choices_of(counts),
            whose=self._whose(seen.scope),
            note=seen.note,
            scope=seen.scope,
            shared=runs.users is not None,
        )

    def _whose(self, scope: PageScope) -> str:
        if scope is PageScope.OWN:
            return f"The runs of {self.sight.user} on this machine"
        if scope is PageScope.EVERYONE:
            others = "those of everyone who signed in here, or holds or waits for GPUs"
            return f"{self._runs.whose}; and {others}"
        return self._runs.whose

    def details(self, run: str) -> RunDetails:
        row, runs = self.one(run)
        return details_seen_by(self.sight, runs.details(row))

    def courses(self, runs: Sequence[str]) -> RunCourses:
        """Returns the utilisation of these runs in a few points each, as time allows."""
        return self._runs.courses.of(self.sight, runs, self.details)

    def marks(self, run: str) -> RunMarks:
        row, runs = self.one(run)
        found = runs.marks(row)
        return replace(found, items=marks_seen_by(self.sight, row.user, found.items))

    def check_signed_in(self) -> None:
        """Raises Denied for a caller without a session; called before anything is read."""
        if self.sight == BLIND:
            raise Denied(
                "records are only for users who have signed in", hint="sign in: andon open"
            )

    def download(self, run: str) -> Download:
        """Returns the record's file, which includes the command, folders and output."""
        row, runs = self._readable(run)
        return runs.download(row)

    def annotate(self, run: str, pinned: bool | None, note: str | None) -> RunEntry:
        """Pins a run of the caller's own, or writes a note on it."""
        row, runs = self.one(run)
        is_own = self._who.user is not None and row.user == self._who.user
        if refused := refusal_for(self._who, Action.ANNOTATE, is_own, row.user or ""):
            raise refused
        return entry_of(runs.annotate(row, pinned, note), self._runs.clock())

    def _readable(self, run: str) -> tuple[RunRow, RunsOfUser]:
        """Finds a run; raises Denied if the caller may not see what its record contains."""
        row, runs = self.one(run)
        if row.path and not self.sight.shows(row.user):
            whose = row.user or "an unknown user"
            raise Denied(f"the record of {row.id} is for {whose}", hint="sign in: andon open")
        return row, runs

    def one(self, run: str) -> tuple[RunRow, RunsOfUser]:
        """Finds a run by its id or a prefix; also returns the runs of the user who has it."""
        found = only(self.visible().named(run), run) or only(self.visible(True).named(run), run)
        if found is None:
            raise not_seen(f"run {run!r}", self.sight, self._runs.users is not None, "andon runs")
        row, others = found
        return row, others or self._runs

    def visible(self, afresh: bool = False) -> "VisibleRuns":
        runs, sight = self._runs, self.sight
        if runs.users is not None and not sight.everything and sight.uid is not None:
            user = runs.users.of(sight.uid)
            if user is not None:
                return VisibleRuns(FoundRuns(), _rows_of(user), PageScope.OWN)
        found = runs.index(afresh)
        if runs.everywhere is not None and (sight.everything or sight.user is None):
            # An account of this machine is not the one of the same name on another.
            found = replace(found, everywhere=runs.everywhere())
        if runs.users is None or not sight.everything:
            return VisibleRuns(found, {}, PageScope.SERVER)
        others, notes = dict[str, tuple[RunRow, RunsOfUser]](), list[str]()
        for user in runs.users.known():
            try:
                others = _rows_of(user) | others
            except AndonError as error:
                notes.append(error.reason)
        return VisibleRuns(found, others, PageScope.EVERYONE, tuple(notes))


class VisibleRuns(Struct, frozen=True):
    """The runs that one caller may see: those in the index, and those in other users' folders."""

    found: FoundRuns
    others: Mapping[str, tuple[RunRow, RunsOfUser]]
    scope: PageScope
    notes: tuple[str, ...] = ()

    def named(self, run: str) -> dict[str, tuple[RunRow, RunsOfUser | None]]:
        """Returns the runs whose id begins so, with the owner's runs, or None for the server's."""
        found: dict[str, tuple[RunRow, RunsOfUser | None]] = {
            name: row for name, row in self.others.items() if run and name.startswith(run)
        }
        return found | {name: (row, None) for name, row in self.found.named(run).items()}

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
        """Returns what is missing from the list, if anything."""
        return "; ".join(filter(None, (self.found.note, *self.notes))) or None

    def rows_of_others(self) -> list[RunRow]:
        """Returns the runs in files of other users that the index does not have."""
        known = self.found.states()
        return [row for row, _ in self.others.values() if row.id not in known]

    def states(self) -> dict[str, str]:
        """Returns the state of each run, by id."""
        others = {run: str(row.state) for run, (row, _) in self.others.items()}
        return others | self.found.states()


def _rows_of(user: UserNode) -> dict[str, tuple[RunRow, RunsOfUser]]:
    return {row.id: (row, user.runs) for row in user.runs.find(RunQuery())}


def news(run: str, callers: Collection[SeenRuns]) -> list[dict[Sight, RunUpdate]]:
    """Returns the new lines of a record since the last call, as each caller sees them; one entry
    for each user who has a run with this name."""
    owners: dict[RunsOfUser, tuple[RunRow, list[Sight]]] = {}
    for caller in callers:
        with suppress(AndonError):  # it was removed, or is another's: the page says so
            row, runs = caller.one(run)
            owners.setdefault(runs, (row, []))[1].append(caller.sight)
    updates = [(row.user, runs.update(row), sights) for runs, (row, sights) in owners.items()]
    return [
        {sight: update_seen_by(sight, user, update) for sight in sights}
        for user, update, sights in updates
    ]
