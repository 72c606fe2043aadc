"""The runs that a server shows to one caller."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from andon.access.roles import Sight
from andon.errors import Conflict, Gone
from andon.model.run.record import RunRow
from andon.runs.rules.matching import RunListing, RunQuery, seen_by
from andon.web.answers.run_schemas import RunCourses, RunDetails, RunMarks, RunPage
from andon.web.runs.shown import Download, ServerRuns


class ServedRuns:
    """Every call reads files."""

    def __init__(self, runs: ServerRuns, sight: Sight) -> None:
        self._runs, self._sight = runs, sight

    def listed(self, query: RunQuery) -> RunListing:
        seen = self._runs.seen(self._sight)
        rows, total = seen.rows(replace(query, sight=self._sight))
        return RunListing(list(rows), total, seen.note)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        try:
            return self.resolve(word).id == word
        except (Gone, Conflict):
            return False

    def resolve(self, word: str) -> RunRow:
        return seen_by(self._sight, self._runs.find(word, self._sight)[0])

    def record(self, row: RunRow) -> Path:
        self.download(row.id).file.close()
        return Path(row.path)

    def page(self, query: RunQuery, search: str) -> RunPage:
        return self._runs.page(self._sight, query, search)

    def details(self, run: str) -> RunDetails:
        return self._runs.details(self._sight, run)

    def courses(self, runs: Sequence[str]) -> RunCourses:
        return self._runs.courses(self._sight, runs)

    def marks(self, run: str) -> RunMarks:
        return self._runs.marks(self._sight, run)

    def download(self, run: str) -> Download:
        return self._runs.download(self._sight, run)
