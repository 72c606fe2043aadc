"""The runs of this machine, by its index and the folder of records."""

from collections.abc import Sequence

from andon.model.run.record import RunRow
from andon.runs.index import RunFinder
from andon.runs.rules.matching import RunListing, RunQuery


class LocalRuns:
    """This user's records; others' are private."""

    def __init__(self, finder: RunFinder) -> None:
        self.finder = finder

    def listed(self, query: RunQuery) -> RunListing:
        finder = self.finder
        left = finder.refresh()
        rows = list(finder.index.find(query))
        total = len(rows) if query.limit is None else finder.index.count(query)
        more = f"{left} more records are not read yet; to read them all: andon runs add"
        return RunListing(rows, total, f"{more} {finder.folder}" if left else None)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        self.finder.refresh()
        return self.finder.index.find(query)

    def is_id(self, word: str) -> bool:
        return any(row.id == word for row in self.finder.index.beginning(word, 1))

    def resolve(self, word: str) -> RunRow:
        return self.finder.resolve(word)

    def with_record(self, row: RunRow) -> RunRow:
        return row

    def close(self) -> None:
        self.finder.index.close()
