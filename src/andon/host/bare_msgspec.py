"""Imports msgspec without `typing_extensions`, for a process that somebody waits for.

Where that package is installed msgspec loads it, and with it half as much again as the reader needs
altogether; the standard library has everything that it takes from there.
"""

import sys

_HIDDEN = "typing_extensions"
_was_loaded = _HIDDEN in sys.modules
if not _was_loaded:
    sys.modules[_HIDDEN] = None  # type: ignore[assignment]
try:
    from msgspec.structs import replace as replace
finally:
    if not _was_loaded:
        del sys.modules[_HIDDEN]
