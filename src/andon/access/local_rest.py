"""REST at a server's local socket: the socket's name, the request frame, and the answer.

The kernel states who connects and who listens, so neither sends a key. A client sends one frame
with a few paths of the REST API that only read; the server answers them in one go, as it answers
that user over HTTP, and closes. Anything but a complete and valid frame gets no answer.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SCHEMA = "andon.rest/1"
PREFIX = "andon-rest/"
LETTERS = 32
MOST_NAMES = 4  # of one port: anyone can choose such a name
MOST_PATHS = 8
MOST_FRAME_BYTES = 4096
MOST_ANSWER_BYTES = 64 << 20  # two minutes of 256 GPUs
_END = b"\n\n"
_LISTENS = b" 00010000 "  # the flags of a socket that accepts connections
_READS = re.compile(
    r"/api/(?:board|checks|features|health|history/(?:changes|devices|notes)|leases|processes"
    r"|reservations|silences|snapshots?"
    r"|system|topology|usage|alerts(?:/rules)?(?:/[^/?#]+)?"
    r"|devices(?:/[^/?#]+(?:/(?:charts|history|usage|why))?)?)(?:\?[^#]*)?",
    re.ASCII,
)
_PRINTABLE = re.compile(rb"[!-~]+(?:\n[!-~]+)*\n\n")
_PART = re.compile(r"([1-5]\d\d)/(\d{1,8})/([0-9.e+-]{0,24})", re.ASCII)


class RestAnswer(NamedTuple):
    """The answer to one path; `interval` is the header with the pace of a snapshot, if any."""

    status: int
    body: bytes
    interval: str = ""


def socket_name(port: int, random_hex: str) -> str:
    """Returns a random name, so that no one can take it first; a client finds it by the port."""
    return f"{PREFIX}{port}/{random_hex}"


def socket_names(table: bytes, port: int) -> Iterator[str]:
    """Yields the names of this port's listening sockets in the kernel's table of Unix sockets
    (/proc/net/unix), where their connections have the same name."""
    start, begin, found = f"@{PREFIX}{port}/".encode(), 0, 0
    while found < MOST_NAMES and (at := table.find(start, begin)) >= 0:
        begin = at + len(start) + LETTERS
        if _LISTENS in table[table.rfind(b"\n", 0, at) + 1 : at]:
            found += 1
            yield table[at + 1 : begin].decode(errors="replace")


def is_trusted(listener: int | None, own: int, system_below: int) -> bool:
    """Whether a server that was not named is trusted: this user's, or a system account's."""
    return listener is not None and (listener == own or listener < system_below)


def is_answered(path: str) -> bool:
    """Whether the socket answers this path: only paths that commands read, without secrets or
    files."""
    return _READS.fullmatch(path) is not None


def frame(paths: Sequence[str]) -> bytes:
    return "\n".join((SCHEMA, *paths)).encode() + _END


def is_over(received: bytes) -> bool:
    """Whether what was received so far is a whole frame, or can never become one."""
    return _END in received or len(received) > MOST_FRAME_BYTES


def paths_in(received: bytes) -> tuple[str, ...] | None:
    """Returns the paths of a frame; None for anything else."""
    if len(received) > MOST_FRAME_BYTES or _PRINTABLE.fullmatch(received) is None:
        return None
    schema, *paths = received.removesuffix(_END).decode("ascii").split("\n")
    fits = schema == SCHEMA and 0 < len(paths) <= MOST_PATHS
    return tuple(paths) if fits and all(map(is_answered, paths)) else None


def answer(parts: Sequence[RestAnswer]) -> bytes:
    """Returns what a server sends."""
    sizes = (f"{one.status}/{len(one.body)}/{one.interval}" for one in parts)
    return b"".join((" ".join((SCHEMA, *sizes)).encode(), b"\n", *(one.body for one in parts)))


def parts_of(answered: bytes, count: int) -> list[RestAnswer] | None:
    """Splits an answer into one part for each path; None if it is incomplete, or of another
    version."""
    head, _, bodies = answered.partition(b"\n")
    schema, *sizes = head.decode(errors="replace").split(" ")
    found = [_PART.fullmatch(one) for one in sizes]
    if schema != SCHEMA or len(found) != count:
        return None
    parts, begin = list[RestAnswer](), 0
    for one in found:
        if one is None:
            return None
        end = begin + int(one[2])
        parts.append(RestAnswer(int(one[1]), bodies[begin:end], one[3]))
        begin = end
    return parts if begin == len(bodies) else None
