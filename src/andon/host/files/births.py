"""Birth time of a file as the kernel records it: the one file time that no user can set."""

import struct
from functools import lru_cache
from typing import Any

_EMPTY_PATH, _BIRTH = 0x1000, 0x800  # AT_EMPTY_PATH, STATX_BTIME
_BYTES = 256
_MASK, _SECONDS = struct.Struct("=I"), struct.Struct("=qI")
_BIRTH_OFFSET = 80


def born(descriptor: int) -> float | None:
    """The birth time of an open file; None if the file system or the C library has none."""
    call = _statx()
    if call is None:
        return None
    buffer = bytearray(_BYTES)
    view = (_ctypes().c_char * _BYTES).from_buffer(buffer)
    if call(descriptor, b"", _EMPTY_PATH, _BIRTH, view) != 0:
        return None
    if not _MASK.unpack_from(buffer)[0] & _BIRTH:
        return None
    seconds, nanoseconds = _SECONDS.unpack_from(buffer, _BIRTH_OFFSET)
    return float(seconds + nanoseconds / 1e9)


def _ctypes() -> Any:
    import ctypes  # imported late: most commands never need it

    return ctypes


@lru_cache(maxsize=1)
def _statx() -> Any:
    return getattr(_ctypes().CDLL(None), "statx", None)
