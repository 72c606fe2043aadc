"""How Python's memory is looked through in a burst of work, and given back after it."""

import ctypes
import gc
from contextlib import suppress

_USUAL = gc.get_threshold()
_SELDOM = 100  # ten times as many objects as usual until all of them are looked through


def collect_seldom() -> None:
    """While there is much work: a look through all objects is a pause for everybody."""
    gc.set_threshold(*_USUAL[:2], _SELDOM)


def give_back() -> None:
    """Collect what refers to itself, which a quiet process does late, and return free pages.

    What Python keeps in arenas that are not wholly empty stays: it is used by the next burst.
    """
    gc.set_threshold(*_USUAL)
    gc.collect()
    with suppress(OSError, AttributeError):  # a system without glibc
        ctypes.CDLL(None).malloc_trim(0)
