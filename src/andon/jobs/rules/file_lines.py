"""The line of each key in a TOML or JSON file, for messages about mistakes in it."""

import json
import re
from collections.abc import Mapping

KeyPath = tuple[str | int, ...]
Lines = Mapping[KeyPath, int]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")
_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+', re.DOTALL)

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def shown_path(path: KeyPath) -> str:
    """Returns `job[2].memory`, counted from 1."""
    out = ""
    for part in path:
        out += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def line_of(path: KeyPath, lines: Lines) -> int | None:
    """Returns the line of a key, or of the nearest table around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def toml_lines(text: str) -> Lines:
    """Finds keys and headers at the start of a line; those in an inline table have its line."""
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    base: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            base = _in_arrays(_parts(header[2]), counts)
            if header[1] == "[[":
                index = counts[base] = counts.get(base, -1) + 1
                found.setdefault(base, number)
                base = (*base, index)
            found.setdefault(base, number)
        elif key := _KEY.match(line):
            found.setdefault((*base, *_parts(key[1])), number)
    return found


def without_comments(text: str) -> str:
    """Returns JSON without its comments (`//` and `/* */`); everything else keeps its line."""
    return _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else "\n" * m[0].count("\n"), text)


def json_lines(text: str) -> Lines:
    """Finds every key and element of a JSON document that has been parsed before."""
    found: dict[KeyPath, int] = {}
    stack: list[str | int | None] = []  # the current key or index of each open table or list
    line, key_next = 1, False
    for mark in _MARK.findall(text):
        if mark == "\n":
            line += 1
        elif mark in "{[":
            _note(found, stack, line)
            stack.append(None if mark == "{" else 0)
            key_next = mark == "{"
        elif mark in "}]":
            stack = stack[:-1]
            key_next = False
        elif mark == ",":
            if stack and isinstance(stack[-1], int):
                stack[-1] += 1
            else:
                key_next = True
        elif mark == ":":
            key_next = False
        elif key_next and stack:
            stack[-1] = str(json.loads(mark))
            _note(found, stack, line)
        else:
            _note(found, stack, line)
    return found


def _note(found: dict[KeyPath, int], stack: list[str | int | None], line: int) -> None:
    path = tuple(part for part in stack if part is not None)
    if path and len(path) == len(stack):
        found.setdefault(path, line)


def _parts(text: str) -> KeyPath:
    return tuple(a or b or c for a, b, c in _PART.findall(text))


def _in_arrays(path: KeyPath, counts: Mapping[KeyPath, int]) -> KeyPath:
    """Returns the full path: `[job.environment]` belongs to the last `[[job]]`."""
    out: KeyPath = ()
    for place, part in enumerate(path):
        out = (*out, part)
        if out in counts and place < len(path) - 1:
            out = (*out, counts[out])
    return out
