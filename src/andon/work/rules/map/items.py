"""The items of a map, from lines, from names that end in NUL, or from JSON lines."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import Invalid
from andon.model.run.record import ItemState, RunItem
from andon.runs.rules.plain import plain_text

MOST_ITEMS = 1_000_000


class MapItem(Struct, frozen=True):
    """One item; `fields` are those of its JSON line."""

    index: int
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    begun_before: bool = False  # by an earlier map that did not record how it ended

    @property
    def shown(self) -> str:
        """Returns the item as records and screens show it."""
        return plain_text(self.text)


def items_of(texts: Iterable[str]) -> tuple[MapItem, ...]:
    """Returns one item for each text that is not empty."""
    return _numbered((text, {}) for text in texts if text)


def items_from_lines(content: str) -> tuple[MapItem, ...]:
    """Reads one item a line; a carriage return before the end of a line does not belong to it."""
    return items_of(line.removesuffix("\r") for line in content.split("\n"))


def items_from_names(content: str) -> tuple[MapItem, ...]:
    """Reads texts that end in NUL, as `find -print0` writes them."""
    return items_of(content.split("\0"))


def items_from_json(content: str) -> tuple[MapItem, ...]:
    """Reads one JSON value a line: the fields of an object can be named in the command."""
    found = []
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            found.append(_json_item(line.strip(), number))
    return _numbered(found)


def _numbered(found: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[MapItem, ...]:
    items = []
    for index, (text, fields) in enumerate(found):
        if index >= MOST_ITEMS:
            raise Invalid(f"there are more than {MOST_ITEMS:,} items", hint="split them")
        items.append(MapItem(index, text, fields))
    return tuple(items)


def _json_item(line: str, number: int) -> tuple[str, Mapping[str, str]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"line {number} of the items is not JSON: {line[:60]!r}") from exc
    if isinstance(value, dict):
        return line, {str(name): _text(one) for name, one in value.items()}
    return _text(value), {}


def _text(value: object) -> str:
    """Returns a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# What an earlier map has already done, and what is left to do.

DIGEST, RESUMES = "command_digest", "resumes"
"""In the parameters of a map's record: its command, and the run that it resumes."""


class Redo(StrEnum):
    """Which items of an earlier map are worked on again."""

    UNDONE = "undone"  # whatever has not succeeded
    FAILED = "failed"
    ALL = "all"


def digest(command: Sequence[str]) -> str:
    """Returns a digest, the same for the same command."""
    return hashlib.sha256(json.dumps(list(command)).encode()).hexdigest()[:16]


def outcomes(lines: Iterable[RunItem]) -> dict[int, tuple[str, ItemState]]:
    """Returns the text of each item of a record, and how it ended; its last line counts."""
    return {line.index: (line.item, line.state) for line in lines}


def left(
    items: Sequence[MapItem],
    before: Mapping[int, tuple[str, ItemState]],
    redo: Redo = Redo.UNDONE,
) -> tuple[MapItem, ...]:
    """Returns the items to work on. Each keeps its number, and is marked if it has begun before
    without an end: its map was killed, and it may have done its work.

    An item is identified by its number and text. If the list has changed since, by its text
    alone: then those count whose number has another text now.
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
