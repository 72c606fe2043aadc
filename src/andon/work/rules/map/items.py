"""The items of a map, from lines, from names that end in NUL, or from JSON lines."""

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from andon.errors import Invalid
from andon.runs.rules.plain import plain_text

MOST_ITEMS = 1_000_000


class MapItem(Struct, frozen=True):
    """One item; `fields` are those of its JSON line."""

    index: int
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    begun_before: bool = False  # by an earlier map that did not say how it ended

    @property
    def shown(self) -> str:
        """Returns the item as records and screens show it."""
        return plain_text(self.text)


def items_of(texts: Iterable[str]) -> tuple[MapItem, ...]:
    """Returns one item for each text that is not empty."""
    return _numbered((text, {}) for text in texts if text)


def items_from_lines(content: str) -> tuple[MapItem, ...]:
    """Lines; a carriage return before the end of a line does not belong to it."""
    return items_of(line.removesuffix("\r") for line in content.split("\n"))


def items_from_names(content: str) -> tuple[MapItem, ...]:
    """Texts that end in NUL, as `find -print0` writes them."""
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
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
