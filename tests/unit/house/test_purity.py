"""Rules and the model are given the time: none of their modules reads a clock or the zone.

The import linter keeps `time` out; `datetime` is allowed for its arithmetic, and looked at here.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import andon
from tests.support.rows import rows

PACKAGE = Path(andon.__file__).parent
PURE = {"access", "core", "explain", "model", "settings"}
"""Rooms without I/O and clock; elsewhere each folder named `rules` is such a room."""
FILES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if (parts := path.relative_to(PACKAGE).parts)[0] in PURE or "rules" in parts[:-1]
)
CLOCKS = {"now", "utcnow", "today", "localtime", "gmtime", "monotonic", "perf_counter", "time_ns"}
ZONES = {"fromtimestamp": 2, "astimezone": 1}
"""With fewer arguments than these, it is the zone of the machine that counts."""
SUSPECT = re.compile(
    rf"\.\s*({'|'.join((*CLOCKS, *ZONES))})\b|\bimport\b.*\btime\b|\bfrom\s+time\b"
)
"""Only what contains such words is worth the parser's time."""


def clock_reads(source: str) -> Iterator[str]:
    """What in this source would read a clock or the zone of the machine."""
    for node in ast.walk(ast.parse(source)) if SUSPECT.search(source) else ():
        if isinstance(node, ast.Import) and any(name.name == "time" for name in node.names):
            yield f"line {node.lineno}: import time"
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            yield f"line {node.lineno}: from time import"
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS and _is_module(node.value):
            yield f"line {node.lineno}: .{node.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            given = len(node.args) + len(node.keywords)
            if given < ZONES.get(node.func.attr, 0):
                yield f"line {node.lineno}: .{node.func.attr}() without a zone"


def _is_module(value: ast.expr) -> bool:
    """Whether it may be a module or class of dates: a value may have a field `now`."""
    name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
    return "date" in name or name in ("dt", "time")


def test_no_pure_module_reads_a_clock() -> None:
    found = {str(path): list(clock_reads(path.read_text(encoding="utf-8"))) for path in FILES}
    assert len(found) > 50
    assert {name: reads for name, reads in found.items() if reads} == {}


@rows("source", [
    "import time", "from time import monotonic", "datetime.now()", "dt.datetime.now(UTC)",
    "datetime.utcnow()", "date.today()", "read = datetime.now", "datetime.fromtimestamp(at)",
    "then.astimezone()",
])  # fmt: skip
def test_a_clock_that_is_read_is_found(source: str) -> None:
    assert list(clock_reads(source))


@pytest.mark.parametrize("source", [
    "from datetime import datetime", "datetime.fromtimestamp(at, UTC)", "then.astimezone(UTC)",
    "datetime(1970, 1, 1) + timedelta(seconds=at)", "now = at", "clock(now)", "fit.now",
])  # fmt: skip
def test_arithmetic_is_not_a_clock(source: str) -> None:
    assert not list(clock_reads(source))
