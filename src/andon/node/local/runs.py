"""The runs of this machine, by its index and the folder of records."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from andon.errors import AndonError, Denied, Unavailable
from andon.host.state.user_folder import is_read_only, state_folder
from andon.model.run.record import RunRow
from andon.node.local.context import LocalContext
from andon.runs.index import RunFinder
from andon.runs.rules.matching import RunListing, RunQuery

T = TypeVar("T")


def open_runs(context: LocalContext) -> "LocalRuns":
    """Returns the runs in this machine's index; if it cannot be opened or written, as on a full
    disk, those in the folder of records, without tags and notes."""

    def by_records(trouble: AndonError) -> RunFinder:
        context.notify(
            f"{trouble.reason}; runs are read from their records, without tags and notes"
        )
        finder = context.parts.open_run_finder(context.notify, context.settings, in_memory=True)
        finder.refresh()
        return finder

    try:
        return LocalRuns(
            context.parts.open_run_finder(context.notify, context.settings), by_records
        )
    except (Unavailable, Denied) as exc:
        folder = state_folder()
        if isinstance(exc, Denied) and not (folder.is_dir() and is_read_only(folder)):
            raise  # it is another user's, or others can write to it
        return LocalRuns(by_records(exc))


class LocalRuns:
    """The runs of this user; those of others are private."""

    def __init__(
        self, finder: RunFinder, instead: Callable[[AndonError], RunFinder] | None = None
    ) -> None:
        """`instead` makes another finder if this one fails."""
        self.finder, self._instead = finder, instead

    def listed(self, query: RunQuery) -> RunListing:
        return self._query(lambda finder: _listed(finder, query))

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        found = self._query(lambda finder: finder.index.beginning(word, 1))
        return any(row.id == word for row in found)

    def resolve(self, word: str) -> RunRow:
        return self._query(lambda finder: finder.resolve(word))

    def record(self, row: RunRow) -> Path:
        return Path(row.path)

    def close(self) -> None:
        self.finder.index.close()

    def _query(self, ask: Callable[[RunFinder], T]) -> T:
        try:
            return ask(self.finder)
        except Unavailable as exc:
            if self._instead is None:
                raise
            self.close()
            self.finder, self._instead = self._instead(exc), None
            return ask(self.finder)


def _listed(finder: RunFinder, query: RunQuery) -> RunListing:
    left = finder.refresh()
    rows = list(finder.index.find(query))
    total = len(rows) if query.limit is None else finder.index.count(query)
    more = f"{left} more records are not read yet; to read them all: andon runs add"
    return RunListing(rows, total, f"{more} {finder.folder}" if left else None)
