"""The screen that a command writes to: how wide, in colour or not, and how errors look on it."""

import os
import sys
from dataclasses import dataclass
from typing import TextIO

from andon.cli.text import Text, harmless, say, without_unicode
from andon.errors import AndonError

PIPE_WIDTH = 120  # for a file or a pipe with no terminal anywhere near


@dataclass(slots=True)
class Choices:
    """What was chosen on the command line, before or after the command's name."""

    simulate: int | None = None
    replay: str | None = None
    config: str | None = None
    color: str | None = None
    quiet: bool = False
    interval_seconds: float | None = None
    url: str | None = None
    token_file: str | None = None

    def flags(self) -> dict[str, object]:
        """The settings that these choices override."""
        names = ("simulate", "replay", "interval_seconds")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command's text goes."""

    width: int
    height: int
    color: bool
    live: bool  # a person looks on
    quiet: bool = False

    @classmethod
    def of(cls, choices: Choices) -> "Terminal":
        width, height = size()
        color = in_color(choices.color or "auto", sys.stdout)
        return cls(width, height, color, _is_terminal(sys.stdout), choices.quiet)

    def show(self, words: str) -> None:
        """Print text that already ends in a newline, at once."""
        write(sys.stdout, words)

    def say(self, text: Text) -> None:
        write(sys.stdout, text.paint(self.color) + "\n")


def size() -> tuple[int, int]:
    """Columns and lines: what COLUMNS and LINES say, else the first terminal among our files."""
    found = (PIPE_WIDTH, 50)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        try:
            seen = os.get_terminal_size(stream.fileno() if stream else -1)
        except (OSError, ValueError):
            continue
        found = (seen.columns or PIPE_WIDTH, seen.lines or 50)
        break
    return _number("COLUMNS") or found[0], _number("LINES") or found[1]


def in_color(choice: str, stream: TextIO) -> bool:
    """`--color` decides; else a terminal has colours unless NO_COLOR or a dumb one says no."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return _is_terminal(stream) and not plain


def write(stream: TextIO, words: str) -> None:
    """Write and flush, in ASCII where the stream knows nothing better."""
    try:
        words.encode(stream.encoding or "utf-8")
    except (LookupError, UnicodeEncodeError):
        words = without_unicode(words)
    stream.write(words)
    stream.flush()


def notice(words: str, choices: Choices | None = None) -> None:
    """One line for the person, beside the output."""
    if choices is None or not choices.quiet:
        write(sys.stderr, f"andon: {harmless(words)}\n")


def report(error: AndonError, color: str = "auto") -> None:
    """An error as a person sees it: one line, what else is wrong, and what to do."""
    colored = in_color(color, sys.stderr)
    lines = [say("andon: ", "bold red") + say(error.reason)]
    mistakes = getattr(error, "mistakes", ())
    lines += [say(f"  {mistake}") for mistake in mistakes if mistake != error.reason]
    if error.hint:
        lines.append(say(f"hint: {error.hint}", "dim"))
    write(sys.stderr, "".join(line.paint(colored) + "\n" for line in lines))


def _is_terminal(stream: TextIO) -> bool:
    return bool(stream.isatty())


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() and int(text) > 0 else None
