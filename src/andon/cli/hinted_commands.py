"""Adds the options that name the machine to commands in hints, such as `andon why 2`: without them
the command would be about this machine."""

import re
from collections.abc import Iterator, Mapping
from functools import cache

import click

from andon.cli.catalogue import ALIASES, COMMANDS, load
from andon.units import shell_line

Machine = Mapping[str, tuple[str, str]]
"""The options that name a machine, each with its value, by their parameter's name in a command."""
_COMMAND_START = re.compile(
    r"(?:(?:^|[·:;,(]|\b(?:see|or|by|until|then|and|\d\.))\s+|^|\()(?:\x1b\[[0-9;]*m)*(andon)(?=\s)",
    re.MULTILINE,
)
"""Where a command stands in a sentence. A command line of a process has a column of its own."""
_ELSEWHERE = re.compile(
    r"\b(?:on|in) (?:its |that |a |the )?\S+(?: (?:run|of \S+))?: *(?:andon .*)?$"
)
"""`on n17: andon runs show 4`, `in a terminal of ada: andon logs 4, andon cancel`."""
_WORD = re.compile(r" ((?:'[^']*'|[^\s'\x1b,;:)])+?)(?=[.:]?(?:[\s,;)\x1b]|$))")
_CERTAIN = re.compile(r"[^a-z]")
"""What is in an argument, and in no word of the sentence that goes on: the options come after; so
they do after a single last word."""
_ABOUT_HUB = re.compile(r" (?:nodes|token)\b")
_MACHINES = ("--url", "--node", "--ssh", "--simulate", "--replay")


def with_machine(text: str, given: Machine) -> str:
    """Returns a text for people in which each command that asks a machine has these options; one
    about a hub does not have that of its node."""
    done, begin = list[str](), 0
    for found in _COMMAND_START.finditer(text):
        place = found.end(1)
        if place >= begin and (at := _place(text, found.start(1), place, frozenset(given))):
            named = {**given, "node_name": ()} if _ABOUT_HUB.match(text, place) else given
            options = shell_line(*(word for pair in named.values() for word in pair))
            done += [text[begin:at], f" {options}"]
            begin = at
    return "".join((*done, text[begin:]))


def _place(text: str, start: int, place: int, given: frozenset[str]) -> int | None:
    """Returns where the options of a command belong; None if it does not take them, or is for
    another machine."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    rest = text[place:].partition("\n")[0]
    tokens = [(found[1], place + found.end()) for found in _tokens(rest)]
    if _ELSEWHERE.search(line) or any(word.startswith(_MACHINES) for word, _ in tokens):
        return None
    path, takes, flags = _command(tuple(word for word, _ in tokens[:2]))
    if not path or not given <= takes:
        return None
    at, is_value = tokens[path - 1][1], False
    for word, end in tokens[path:]:
        if not (is_value or _CERTAIN.search(word) or end == tokens[-1][1]):
            break
        at, is_value = end, word.startswith("-") and word not in flags and "=" not in word
    return at


def _tokens(rest: str) -> Iterator[re.Match[str]]:
    """Yields the tokens of a command up to the first punctuation mark of the sentence."""
    at = 0
    while (found := _WORD.match(rest, at)) is not None:
        yield found
        at = found.end()


@cache
def _command(tokens: tuple[str, ...]) -> tuple[int, frozenset[str], frozenset[str]]:
    """Returns how many of these words name a command, its parameters, and its options without a
    value."""
    entry = COMMANDS.get(ALIASES.get(tokens[0], tokens[0])) if tokens else None
    if entry is None:
        return 0, frozenset(), frozenset()
    command, count = load(entry.target), 1
    while isinstance(command, click.Group) and count < len(tokens):
        if (found := command.get_command(click.Context(command), tokens[count])) is None:
            break
        command, count = found, count + 1
    flags = [o for one in command.params if getattr(one, "is_flag", False) for o in one.opts]
    return count, frozenset(str(one.name) for one in command.params), frozenset(flags)
