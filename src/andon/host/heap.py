"""Garbage collection during a burst of work, and releasing memory afterwards."""

import ctypes
import gc
from contextlib import suppress

_USUAL = gc.get_threshold()
_SELDOM = 100  # ten times as many objects as usual before a full collection


def collect_rarely() -> None:
    """Run full collections less often under load: each one pauses all threads."""
    gc.set_threshold(*_USUAL[:2], _SELDOM)


def release_memory() -> None:
    """Collect reference cycles, which an idle process does late, and return free pages.

    Memory in partly used arenas stays allocated: the next burst uses it.
    """
    gc.set_threshold(*_USUAL)
    gc.collect()
    with suppress(OSError, AttributeError):  # a system without glibc
        ctypes.CDLL(None).malloc_trim(0)
