"""Reads what earlier maps have done, from their records."""

import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from andon.core.mapping.resume import DIGEST, RESUMES, outcomes
from andon.core.runs.lines import RecordLines
from andon.engine.records.files import open_record, pieces
from andon.errors import AndonError, Invalid
from andon.model.run import ItemState, RunItem, RunKind, RunRow

MOST_CHAINED = 1000
WRITTEN_SECONDS, POLL_SECONDS = 30.0, 0.05


def earlier_outcomes(
    row: RunRow, command: str, resolve: Callable[[str], RunRow]
) -> dict[int, tuple[str, ItemState]]:
    """How the items of a map ended, and of those that it went on from; Invalid for other runs."""
    if row.kind is not RunKind.MAP:
        raise Invalid(f"run {row.id} ({row.name}) is not a map", hint="andon runs lists them")
    if row.params.get(DIGEST) != command:
        raise Invalid(
            f"run {row.id} was of another command: {row.command}",
            hint="repeat its command, or leave --resume out",
        )
    chain = [row]
    while (before := chain[-1].params.get(RESUMES)) and len(chain) < MOST_CHAINED:
        try:
            chain.append(resolve(str(before)))
        except AndonError:  # its record was deleted: what it did is done again
            break
    found: dict[int, tuple[str, ItemState]] = {}
    for one in reversed(chain):
        found |= outcomes(_items(Path(one.path)))
    return found


def _items(path: Path) -> Iterator[RunItem]:
    reader = RecordLines(without_samples=True)
    with open_record(path) as file:
        _wait_until_written(file.fileno())
        size = path.stat().st_size
        for data in pieces(file, size):
            yield from (line for line in reader.feed(data) if isinstance(line, RunItem))


def _wait_until_written(descriptor: int) -> None:
    """The process that writes a record outlives a killed map until all lines are in it; without
    the last ones, items that have ended would be done again."""
    until = time.monotonic() + WRITTEN_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_SECONDS)
        except OSError:  # some file systems cannot
            return
        else:
            return
