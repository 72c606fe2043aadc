"""What the docs type: command lines of their blocks, and why some of them are not run.

A block is what is indented by four columns, or fenced as text, sh or console. A comment above it
says what is not run: `<!-- not run: why -->` nothing of it; `<!-- not run (WORDS; WORDS): why -->`
the lines with these words. The rest is run with simulated devices.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAMS = (
    "andon", "cd", "createdb", "curl", "docker", "echo", "eval", "export", "find", "helm",
    "kubectl", "make", "mkdir", "openssl", "pip", "pipx", "python", "scp", "ssh", "sudo",
    "sudoedit",
)  # fmt: skip
TYPED = re.compile(rf"^ *(?:\$ )?((?:[A-Z_]+=\S* )*(?:{'|'.join(PROGRAMS)})(?: [^=│].*)?)$")
NOT_RUN = re.compile(r"<!-- not run(?: \((.*?)\))?: (.*?) -->", re.DOTALL)
KINDS = ("", "sh", "console", "text")


class Block(NamedTuple):
    """The lines that are typed, and which of them are not run for which reason."""

    page: Path
    line: int
    typed: tuple[str, ...]
    words: tuple[str, ...] | None
    """Lines with these are not run; empty: none is; None: there is no such comment."""

    def runs(self, line: str) -> bool:
        if self.words is None:
            return True
        return bool(self.words) and not any(word in line for word in self.words)


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in which something is typed."""
    for first, above, body in _raw(page.read_text("utf-8").splitlines()):
        typed = tuple(_command(found[1]) for one in _joined(body) if (found := TYPED.match(one)))
        if typed:
            mark = NOT_RUN.search(above)
            words = None if mark is None else tuple(filter(None, (mark[1] or "").split("; ")))
            yield Block(page, first, typed, words)


def _command(line: str) -> str:
    """A line without the words behind it: a comment, or what is set far to the right."""
    return re.sub(r"\s+# .*$|   +\S.*$", "", line).strip()


def _joined(lines: list[str]) -> list[str]:
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def _raw(lines: list[str]) -> Iterator[tuple[int, str, list[str]]]:
    """Each block with the number of its first line and the comment above it."""
    number = 0
    while number < len(lines):
        line, begin = lines[number], number
        if fence := re.match(r" *```(\w*)$", line):
            number += 1
            while lines[number].strip() != "```":
                number += 1
            body, number = lines[begin + 1 : number], number + 1
            if fence[1] not in KINDS:
                continue
        elif line.startswith("    ") and line.strip():
            while number < len(lines) and (lines[number][:4] == "    " or not lines[number]):
                number += 1
            body = lines[begin:number]
        else:
            number += 1
            continue
        yield begin + 1, _above(lines, begin), body


def _above(lines: list[str], begin: int) -> str:
    """The comment that ends right above a block, if there is one."""
    end = begin
    while end and not lines[end - 1].strip():
        end -= 1
    if not end or not lines[end - 1].endswith("-->"):
        return ""
    first = end - 1
    while "<!--" not in lines[first]:
        first -= 1
    return "\n".join(lines[first:end])
