"""What an earlier map has already done, and what is left to do."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from andon.model.run.record import ItemState, RunItem
from andon.work.rules.map.items import MapItem

DIGEST, RESUMES = "command_digest", "resumes"
"""In the parameters of a map's record: its command, and the run that it resumes."""


class Redo(StrEnum):
    """Which items of an earlier map are worked on again."""

    UNDONE = "undone"  # whatever has not succeeded
    FAILED = "failed"
    ALL = "all"


def digest(words: Sequence[str]) -> str:
    """Returns a digest, the same for the same command."""
    return hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()[:16]


def outcomes(lines: Iterable[RunItem]) -> dict[int, tuple[str, ItemState]]:
    """The text of each item of a record, and how it ended; the last line of it counts."""
    return {line.index: (line.item, line.state) for line in lines}


def left(
    items: Sequence[MapItem],
    before: Mapping[int, tuple[str, ItemState]],
    redo: Redo = Redo.UNDONE,
) -> tuple[MapItem, ...]:
    """The items that are worked on; each keeps its number, and is marked if it has begun before
    without an end: its map was killed, and it may have done its work.

    An item is known by its number and text. If the list has changed since, by its text alone: then
    those count whose number has another text now.
    """
    texts = {item.index: item.shown for item in items}
    others = [pair for at, pair in before.items() if texts.get(at) != pair[0]]
    moved = dict(others) | {text: state for text, state in others if state is ItemState.OK}

    def state_of(item: MapItem) -> ItemState | None:
        text, state = before.get(item.index, ("", None))
        return state if text == texts[item.index] and state else moved.get(texts[item.index])

    def wanted(state: ItemState | None) -> bool:
        if redo is Redo.ALL:
            return True
        return state is ItemState.FAILED if redo is Redo.FAILED else state is not ItemState.OK

    known = ((item, state_of(item)) for item in items)
    return tuple(
        replace(item, begun_before=True) if state is ItemState.START else item
        for item, state in known
        if wanted(state)
    )
