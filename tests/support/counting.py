"""Counts what a piece of code does, where a clock would depend on the machine."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch


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
    """The paths that are opened meanwhile, through `os.open` or a file object."""
    found: list[str] = []
    bare = os.open

    def opened(path: Any, *arguments: Any, **named: Any) -> int:
        found.append(os.fspath(path))
        return bare(path, *arguments, **named)

    with patch("os.open", opened), patch("io.open", _noting(found)):
        yield found


def _noting(found: list[str]) -> Callable[..., Any]:
    bare = open

    def opened(path: Any, *arguments: Any, **named: Any) -> Any:
        found.append(str(path))
        return bare(path, *arguments, **named)

    return opened
