"""The runs of a server, straight from records, in an index in memory."""

from collections.abc import Callable, Iterable
from pathlib import Path

from andon.model.run.record import RunRow
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.runs.files import read_ends
from andon.runs.rules.fold import row_of
from andon.stores.memory import MemoryRunIndex
from tests.support.run_records import BEGAN

WHOSE = "The runs of ada, who runs this server"
NOW = BEGAN + 100


def row_at(path: Path, alive: bool = True) -> RunRow:
    """What an index would say of it; `alive` matters only without an end."""
    read = read_ends(path, 0)
    return row_of(read.begin, read.fold, str(path), alive and read.fold.end is None, read.whole)


def index_of(rows: Iterable[RunRow]) -> MemoryRunIndex:
    index = MemoryRunIndex()
    index.put(list(rows))
    return index


def runs_of(rows: Iterable[RunRow], monotonic: Callable[[], float] = lambda: 0.0) -> ServedRuns:
    found = FoundRuns(index_of(rows))
    return ServedRuns(lambda: found, WHOSE, clock=lambda: NOW, monotonic=monotonic)
