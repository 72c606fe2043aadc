"""The runs that a server has: the rows of its index, the records that are open, and users' parts.

Where root runs the server, the runs of each user come from that user's reader.
"""

import threading
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.model.run.record import RunRow
from andon.node.watched.run_courses import CourseReader
from andon.node.watched.users import SharedUsers
from andon.ports import RunIndex
from andon.runs.growing import RunRecords
from andon.runs.rules.matching import RunCounts, RunQuery

MOST_NAMED = 10_000
FRESH_SECONDS = 1.0
"""Requests within this time look for new records once."""


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

    def of(self, user: str) -> "FoundRuns":
        """Returns them without those of others."""
        others = self.find(RunQuery(not_user=user))
        return replace(self, without=frozenset(row.id for row in others))

    def states(self) -> dict[str, str]:
        found = self.index.states() if self.index else {}
        return {run: state for run, state in found.items() if run not in self.without}

    def _shown(self, query: RunQuery) -> RunQuery:
        return replace(query, without=self.without)


class ServerRuns:
    """What every caller's view of them is made of: see SeenRuns."""

    def __init__(
        self,
        look: Callable[[], FoundRuns],
        whose: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        users: SharedUsers | None = None,
        everywhere: Callable[[], RunIndex] | None = None,
    ) -> None:
        """`look` brings the index up to date, once for all requests within a second. `everywhere`
        opens one that finds the runs of all nodes of a hub."""
        self._look, self._monotonic = look, monotonic
        self.whose, self.users, self.everywhere, self.clock = whose, users, everywhere, clock
        self.records, self.courses = RunRecords(), CourseReader()
        self._lock = threading.Lock()
        self._found = FoundRuns()
        self._looked = float("-inf")

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
