"""Who is at the other end of a local socket, according to the kernel.

It uses what is below Python's module `socket`, whose import takes longer than a server's answer.
"""

import sys

if sys.platform == "linux":
    from _socket import AF_UNIX, SO_PEERCRED, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket

OVERFLOW = "/proc/sys/kernel/overflowuid"
_INT_BYTES = 4
_LONG_BYTES = (sys.maxsize.bit_length() + 1) // 8  # on Linux as many as of a pointer


def is_known() -> bool:
    """Whether this system can tell, and has abstract sockets, which have no file."""
    return sys.platform == "linux"


def connect(name: str, timeout_seconds: float) -> "socket":
    """Returns a connection to a socket without a file, whose calls end after this time; the
    caller closes it.

    The kernel waits while many others connect, and serves them in order; Python's own timeout
    would make it refuse at once.
    """
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        parts = (int(timeout_seconds), int(timeout_seconds % 1 * 1e6))
        limit = b"".join(part.to_bytes(_LONG_BYTES, sys.byteorder) for part in parts)
        connection.setsockopt(SOL_SOCKET, SO_SNDTIMEO, limit)
        connection.connect(f"\0{name}")
        connection.settimeout(timeout_seconds)
    except OSError:
        connection.close()
        raise
    return connection


def peer_uid(connection: "socket", overflow: str = OVERFLOW) -> int | None:
    """Returns the peer's uid; None for one that is unknown here, a number that many users share."""
    found = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 3 * _INT_BYTES)  # pid, uid, gid
    uid = int.from_bytes(found[_INT_BYTES : 2 * _INT_BYTES], sys.byteorder, signed=True)
    return None if uid < 0 or uid == _overflow_uid(overflow) else uid


def _overflow_uid(path: str) -> int:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - no codec is loaded for it
            return int(file.read())
    except (OSError, ValueError):
        return 65534
