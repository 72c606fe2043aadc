"""Styled text that knows its width on a screen, in any script."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from andon.units import fixed

T = TypeVar("T")
ELLIPSIS = "…"
UNKNOWN = "–"
MEDIUM, WIDE = 100, 160  # columns of a terminal from which tables have more of their own

_SGR = {
    "bold": "1", "dim": "2", "reverse": "7",
    "red": "31", "green": "32", "yellow": "33", "cyan": "36",
}  # fmt: skip
_WITHOUT_UNICODE = str.maketrans({
    "━": "#", "╸": "#", "─": "-", "–": "-", "…": "~", "·": "|", "°": "", "×": "x", "└": "`",
    "●": "*", "▲": "!", "✕": "X", "◌": "?", "○": "o", "◎": "0", "✓": "+", "▌": "|",
    **dict(zip("▁▂▃▄▅▆▇█", "_..--==#", strict=True)),
})  # fmt: skip


_COMMANDS = (
    "\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
    "\u2066-\u2069]"
)


_CELSIUS_CELL = r"(-?\d+(?:\.\d+)?) °C(?=(?:\x1b\[[0-9;]*m)*  )"
"""A temperature with another column behind it."""


@lru_cache(maxsize=4096)
def char_width(char: str) -> int:
    """How many cells one character takes: 0 for marks, 2 for East-Asian and most emoji."""
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def display_width(text: str) -> int:
    """How many cells a text takes on a screen."""
    return len(text) if text.isascii() else _known_width(text)


def harmless(text: str) -> str:
    """Removes anything that moves the cursor: a process name may contain anything."""
    return text if text.isascii() and text.isprintable() else _made_harmless(text)


# Remembered: a live table has the same bars, units and marks in every picture.
@lru_cache(maxsize=4096)
def _known_width(text: str) -> int:
    return sum(map(char_width, text))


@lru_cache(maxsize=4096)
def _made_harmless(text: str) -> str:
    return "".join(" " if c.isspace() else c if _shown(c) else "�" for c in text)


def without_commands(painted: str) -> str:
    """Removes all terminal control sequences but colours from a text of several lines."""
    if painted.replace("\n", "").isprintable():  # as without colours
        return painted
    return re.sub(_COMMANDS, "\N{REPLACEMENT CHARACTER}", painted)


def _shown(char: str) -> bool:
    category = unicodedata.category(char)
    joiner = char == "\u200d"  # joins emoji; the other format characters reorder text
    return joiner or category not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def without_unicode(text: str) -> str:
    """The same line for a terminal that supports only ASCII; columns stay where they are."""
    plain = re.sub(_CELSIUS_CELL, r" \1 C", text).translate(_WITHOUT_UNICODE)
    if plain.isascii():
        return plain
    return "".join(char if char.isascii() else "?" * char_width(char) for char in plain)


class Text(NamedTuple):
    """Text in one or more styles; a style is any of `bold dim reverse red green yellow cyan`."""

    spans: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: "Text") -> "Text":  # type: ignore[override]
        return Text(self.spans + other.spans)

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.spans)

    @property
    def width(self) -> int:
        cells = 0
        for text, _ in self.spans:  # a plain loop: called several times per cell
            cells += len(text) if text.isascii() else _known_width(text)
        return cells

    def paint(self, color: bool) -> str:
        """The line with its control sequences, without trailing spaces."""
        if not color:
            return self.plain.rstrip()
        spans = [(text, style) for text, style in self.spans if text]
        while spans and not spans[-1][0].strip() and "reverse" not in spans[-1][1]:
            spans.pop()
        return "".join(_sgr(text, style) for text, style in spans)

    def restyled(self, style: str) -> "Text":
        """Returns the same text in one style."""
        return styled(self.plain, style)

    def fit(self, width: int) -> "Text":
        """Returns the text at most this wide; a cut text ends in an ellipsis."""
        return self if self.width <= width else self._cut(width)

    def pad(self, width: int, right: bool = False) -> "Text":
        """Returns the text at least this wide, aligned left or right."""
        room = styled(" " * max(0, width - self.width))
        return room + self if right else self + room

    def _cut(self, width: int) -> "Text":
        if width < 1:
            return Text()
        spans: list[tuple[str, str]] = []
        room = width - 1
        for text, style in self.spans:
            short = _prefix(text, room)
            spans.append((short if short == text else short.rstrip() + ELLIPSIS, style))
            if short != text:
                return Text(tuple(spans))
            room -= display_width(text)
        return Text(tuple(spans))


@lru_cache(maxsize=4096)  # a live table repeats its texts every second
def styled(text: str, style: str = "") -> Text:
    """A text in one style, made harmless."""
    return Text(((harmless(text), style),) if text else ())


def known(value: T | None, form: Callable[[T], str] = str, style: str = "") -> Text:
    """Returns a value in this form; a dim dash where it is unknown."""
    return styled(UNKNOWN, "dim") if value is None else styled(form(value), style)


def percent(value: float | None, style: str = "") -> Text:
    return known(value, lambda number: f"{fixed(number)} %", style)


def painted(lines: Iterable[Text], color: bool = False) -> str:
    """Returns lines as they are printed, each with its newline."""
    return "".join(f"{line.paint(color)}\n" for line in lines)


def with_mark(lines: Sequence[Text], mark: str, width: int) -> list[Text]:
    """Returns the lines with a mark, such as SIMULATED, at the right of the first, never cut."""
    room, shown = width - display_width(mark) - 2, styled("  ") + styled(mark, "bold reverse")
    return [lines[0].fit(room).pad(room) + shown, *lines[1:]] if mark else list(lines)


def join(parts: list[Text], between: str = "") -> Text:
    """The parts in a row, with something between them."""
    out = Text()
    for number, part in enumerate(parts):
        out = out + (styled(between, "dim") if number and between else Text()) + part
    return out


def _prefix(text: str, width: int) -> str:
    taken = 0
    for place, char in enumerate(text):
        taken += char_width(char)
        if taken > width:
            return text[:place]
    return text


def _sgr(text: str, style: str) -> str:
    codes = ";".join(_SGR[name] for name in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text
