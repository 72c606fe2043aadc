"""Reads the items of a map: names of files, or lines of a file or of standard input."""

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from andon.errors import Invalid
from andon.work.rules.map.items import (
    MapItem,
    items_from_json,
    items_from_lines,
    items_from_names,
    items_of,
)

MOST_ITEMS_BYTES = 1 << 30


def files_as_items(given: Sequence[str]) -> tuple[MapItem, ...]:
    """Returns each matching file once, in order; a pattern without a match is an error."""
    return items_of(_matching([part for one in given for part in one.split(",") if part]))


def _matching(patterns: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for pattern in patterns:
        found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - keeps names as typed
        if not found:
            raise Invalid(f"no file matches {pattern!r}")
        for name in found:
            if name not in seen:
                seen.add(name)
                yield name


def items_in(source: str, jsonl: bool, null: bool) -> tuple[MapItem, ...]:
    """Reads a file, or `-`: standard input, if it is not a terminal. Items are lines, with `jsonl`
    lines of JSON, with `null` names that end in a zero byte."""
    if source == "-" and sys.stdin.isatty():
        return ()
    try:
        content = _content(source)
    except OSError as exc:
        raise Invalid(
            f"{source}: {exc.strerror}", hint="--items takes a file, or - for stdin"
        ) from exc
    if len(content) > MOST_ITEMS_BYTES:
        raise Invalid(f"{source} is larger than 1 GiB", hint="split it")
    text = os.fsdecode(content)
    if jsonl:
        return items_from_json(text)
    return items_from_names(text) if null else items_from_lines(text)


def _content(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read(MOST_ITEMS_BYTES + 1)
    with Path(source).open("rb") as file:
        return file.read(MOST_ITEMS_BYTES + 1)
