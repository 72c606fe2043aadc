"""Counts what a piece of code does, where a clock would depend on the machine."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tests.support.noticed import noticed


def python_calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function of andon was entered; comprehensions are left out, because newer
    versions of Python make no call of them."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and not name.endswith("comp>") and "andon" in frame.f_code.co_filename:
            found[name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The paths that were opened meanwhile, known at the end."""
    found: list[str] = []
    with noticed("open") as opened:
        yield found
    found.extend(str(arguments[0]) for arguments in opened)
