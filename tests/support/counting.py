"""Counts what a piece of code does, where a clock would depend on the machine."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tests.support.noticed import noticed


def python_calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function of andon was entered; comprehensions are left out, because newer
    versions of Python make no call of them."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and not name.endswith("comp>") and "andon" in frame.f_code.co_filename:
            found[name] += 1

    _profiled(work, count)
    return found


def system_calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function was called that Python has from the operating system."""
    found: Counter[str] = Counter()

    def count(_frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__module__ == os.open.__module__:
            found[called.__name__] += 1

    _profiled(work, count)
    return found


def _profiled(work: Callable[[], object], count: Callable[[FrameType, str, Any], None]) -> None:
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths that were opened meanwhile, known at the end."""
    found: list[str] = []
    with noticed("open") as opened:
        yield found
    found.extend(str(arguments[0]) for arguments in opened)
