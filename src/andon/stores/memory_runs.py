"""An index of runs in memory: for tests, and where nothing may be written."""

import threading
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from andon.errors import Gone
from andon.model.run.record import RunRow
from andon.runs.rules.baselines import RunBaseline
from andon.runs.rules.matching import RunCounts, RunQuery, counted, select


class MemoryRunIndex:
    """Keeps the rows, and searches all of them."""

    place = "memory"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, RunRow] = {}
        self._baselines: dict[str, RunBaseline] = {}

    def put(self, rows: Sequence[RunRow]) -> None:
        with self._lock:
            for row in rows:
                known = self._rows.get(row.id, row)
                self._rows[row.id] = replace(row, tags=known.tags, note=known.note)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return select(self._all(), query)

    def count(self, query: RunQuery) -> int:
        return self.counts(query).runs

    def counts(self, query: RunQuery) -> RunCounts:
        return counted(self._all(), query)

    def beginning(self, text: str, limit: int) -> Sequence[RunRow]:
        found = [row for row in self._all() if row.id.startswith(text)]
        return sorted(found, key=lambda row: (row.id != text, -row.began, row.id))[:limit]

    def paths(self) -> Mapping[str, str]:
        return {row.path: row.id for row in self._all()}

    def states(self) -> Mapping[str, str]:
        return {row.id: str(row.state) for row in self._all()}

    def annotate(self, run: str, tags: Sequence[str], note: str | None) -> None:
        with self._lock:
            if run not in self._rows:
                raise Gone(f"there is no run {run[:40]!r}")
            self._rows[run] = replace(self._rows[run], tags=tuple(sorted(set(tags))), note=note)

    def drop(self, runs: Sequence[str]) -> None:
        with self._lock:
            for run in runs:
                self._rows.pop(run, None)

    def baselines(self) -> Sequence[RunBaseline]:
        with self._lock:
            return [one for _, one in sorted(self._baselines.items())]

    def put_baseline(self, baseline: RunBaseline) -> None:
        with self._lock:
            self._baselines[baseline.name] = baseline

    def drop_baseline(self, name: str) -> bool:
        with self._lock:
            return self._baselines.pop(name, None) is not None

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _all(self) -> list[RunRow]:
        with self._lock:
            return list(self._rows.values())
