"""Gives memory back that a burst of work has left behind."""

import ctypes
import gc
from contextlib import suppress


def give_back() -> None:
    """Collect what refers to itself, which a quiet process does late, and return free pages.

    What Python keeps in arenas that are not wholly empty stays: it is used by the next burst.
    """
    gc.collect()
    with suppress(OSError, AttributeError):  # a system without glibc
        ctypes.CDLL(None).malloc_trim(0)
