"""How wide the screen is, and whether it shows colours."""

import os
import sys
from typing import TextIO

PIPE_WIDTH = 120  # for a file or a pipe without a terminal
LEAST_WIDTH, MOST_WIDTH = 20, 1000  # a heading is this wide: COLUMNS must not fill a disk


def size() -> tuple[int, int]:
    """Columns and lines: from COLUMNS and LINES, else from the first standard stream with any."""
    found = (PIPE_WIDTH, 50)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        try:
            seen = os.get_terminal_size(stream.fileno() if stream else -1)
        except (OSError, ValueError):
            continue
        found = (seen.columns or PIPE_WIDTH, seen.lines or 50)
        break
    width = _number("COLUMNS") or found[0]
    return min(max(width, LEAST_WIDTH), MOST_WIDTH), _number("LINES") or found[1]


def in_color(choice: str, stream: TextIO) -> bool:
    """`--color` decides; else a terminal gets colours unless NO_COLOR or TERM=dumb is set."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return is_terminal(stream) and not plain


def is_terminal(stream: TextIO) -> bool:
    return bool(stream.isatty())


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) > 0 else None
