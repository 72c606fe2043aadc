"""Reads what earlier maps have done, from their records."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from andon.errors import AndonError, Conflict, Invalid, Unavailable
from andon.host.files import lock
from andon.model.codec import Id, Wrong, read
from andon.model.run.record import ItemState, RunItem, RunKind, RunRow
from andon.runs.files import lines_in, open_record
from andon.runs.rules.lines import SAMPLE, RecordLines
from andon.work.map.blocks import FOLDER, BlockFolder
from andon.work.rules.map.items import DIGEST, RESUMES, outcomes

MOST_CHAINED = 1000
MOST_BYTES = 16 * 1024**3  # of one record; read whole, without its samples
WRITTEN_SECONDS, POLL_SECONDS = 30.0, 0.05


def earlier_outcomes(
    row: RunRow, command: str, resolve: Callable[[str], RunRow]
) -> dict[int, tuple[str, ItemState]]:
    """Returns how the items of a map ended, and of those that it continued from; raises Invalid
    for other runs."""
    if row.kind is not RunKind.MAP:
        raise Invalid(f"run {row.id} ({row.name}) is not a map", hint="andon runs lists them")
    if row.params.get(DIGEST) != command:
        raise Invalid(
            f"run {row.id} was of another command: {row.command}",
            hint="repeat its command, or leave --resume out",
        )
    chain = {row.id: row}
    while (before := _before(row, command, resolve)) and len(chain) < MOST_CHAINED:
        if before.id in chain:
            break
        row = chain[before.id] = before
    found: dict[int, tuple[str, ItemState]] = {}
    until = time.monotonic() + WRITTEN_SECONDS
    for one in reversed(chain.values()):
        found |= outcomes(_items(Path(one.path), until))
        found |= _of_workers(one)
    return found


def _of_workers(row: RunRow) -> dict[int, tuple[str, ItemState]]:
    """Returns what a cluster map's workers have done; raises Conflict while they are at work."""
    folder = BlockFolder(Path(str(row.params.get(FOLDER))))
    if FOLDER not in row.params or not folder.path.is_dir():
        return {}
    if folder.is_alive() and not folder.is_over(folder.plan()):
        raise Conflict(
            f"the workers of run {row.id} are still at work",
            hint="wait for them, or cancel them: andon jobs lists them",
        )
    return folder.outcomes()


def _before(row: RunRow, command: str, resolve: Callable[[str], RunRow]) -> RunRow | None:
    """Returns the map that this one continued from. None if its record was deleted or is one of
    another command: its items are done again."""
    try:
        run = read(Id, row.params.get(RESUMES))
        found = resolve(run)
    except (AndonError, Wrong):
        return None
    same = found.kind is RunKind.MAP and found.params.get(DIGEST) == command
    return found if same and found.id == run else None


def _items(path: Path, until: float) -> Iterator[RunItem]:
    reader = RecordLines(skipped=(SAMPLE,))
    with open_record(path) as file:
        _wait_until_written(file.fileno(), until)
        try:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise Invalid(f"{path} is larger than 16 GiB", hint="leave --resume out")
            lines = lines_in(file, size, reader)
            yield from (line for line in lines if isinstance(line, RunItem))
        except OSError as exc:
            raise Unavailable(f"{path} cannot be read: {exc.strerror}") from exc


def _wait_until_written(descriptor: int, until: float) -> None:
    """Waits until a record is complete, because its writer may outlive a killed map: items that
    have ended must not be done again."""
    while time.monotonic() < until:
        try:
            lock(descriptor, shared=True)
        except BlockingIOError:
            time.sleep(POLL_SECONDS)
        except OSError:  # some file systems cannot
            return
        else:
            return
