"""Who imports whom in src/andon, and when: read from the lines of the source, without a parser."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from tests.support.sources import sources

TOP, TYPES, GUARDED, INSIDE = "top", "types", "guarded", "inside"
"""At the top of a module, for types alone, in a `try` of a function, elsewhere in a function."""
IMPORT = re.compile(
    r"^( *)(?:from ([\w.]+) import (\([^)]*\)|[^\n#]*)|import ([\w., ]+))", re.MULTILINE
)


class Import(NamedTuple):
    """One statement: what it names, and where it stands."""

    of: str
    targets: tuple[str, ...]
    when: str
    line: int


def _module(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".")
    return f"andon.{name}".rstrip(".")


@cache
def modules() -> frozenset[str]:
    return frozenset(_module(path) for path in sources())


@cache
def imports() -> tuple[Import, ...]:
    return tuple(
        found for path, text in sources().items() for found in _imports(_module(path), text)
    )


def _imports(of: str, text: str) -> Iterable[Import]:
    text = re.sub(r'"""[\s\S]*?"""', lambda found: "\n" * found[0].count("\n"), text)
    lines = text.split("\n")
    for found in IMPORT.finditer(text):
        line = text.count("\n", 0, found.start())
        around = set(_around(lines, line)) if found[1] else set()
        when = (
            GUARDED if {"def", "try"} <= around
            else INSIDE if "def" in around
            else TYPES if "TYPE_CHECKING" in around
            else TOP
        )  # fmt: skip
        yield Import(of, tuple(sorted(_targets(found))), when, line + 1)


def _around(lines: Sequence[str], line: int) -> Iterator[str]:
    """The words of the blocks that a line stands in, the innermost first."""
    indent = _indent(lines[line])
    for one in reversed(lines[:line]):
        if indent and one.strip() and _indent(one) < indent:
            yield from re.findall(r"\w+", one)[:3]
            # The last line of a signature stands as far left as its first.
            indent = _indent(one) + one.lstrip().startswith(")")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _targets(found: re.Match[str]) -> set[str]:
    if found[4] is not None:
        return {name.split()[0] for name in found[4].split(",")}
    names = re.findall(r"(\w+)(?: as \w+)?", found[3])
    return {full if (full := f"{found[2]}.{name}") in modules() else found[2] for name in names}


def graph(*when: str) -> dict[str, set[str]]:
    """Which modules each module imports at such places."""
    made: dict[str, set[str]] = {name: set() for name in modules()}
    for one in imports():
        if one.when in when:
            made[one.of].update(one.targets)
    return made


def loaded_by(names: Iterable[str], edges: Mapping[str, set[str]]) -> set[str]:
    """What is in memory once these were imported, their packages included."""
    found, left = set[str](), list(names)
    while left:
        parts = left.pop().split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name not in found:
                found.add(name)
                left.extend(edges.get(name, ()))
    return found


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other, in whatever way; empty if none do."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as exc:
        return list(exc.args[1])
    return []
