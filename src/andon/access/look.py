"""What a server gives this machine's users at a local socket: its latest snapshot of the
devices.

The kernel identifies the user who connects, so that the client sends nothing: the server answers
with what this user may see, and closes. The user who listens is identified in the same way, and
must be trusted.

A client that wants the table of `andon status` as text says so by the name of its own end of the
connection, which the server has with the connection: it waits for no request, and reads none. A
server that does not draw sends what every other client gets, or nothing.
"""

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than an answer
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

SCHEMA = "andon.look/1"
PREFIX = "andon-look/"
LETTERS = 32
MOST_NAMES = 4  # of one port: anyone can choose such a name
DRAWN = "andon.drawn/1"

Asked = tuple[int, bool, bool, bool]
"""A table: its width; whether it has colours, is on a terminal, is for `andon` alone."""


def look_name(port: int, random_hex: str) -> str:
    """Returns a random name, so that no one can take it first; a client finds it by the port."""
    return f"{PREFIX}{port}/{random_hex}"


def look_names(table: bytes, port: int) -> "Iterator[str]":
    """The sockets of this port in the kernel's table of Unix sockets (/proc/net/unix)."""
    start, begin = f"@{PREFIX}{port}/".encode(), 0
    for _ in range(MOST_NAMES):
        at = table.find(start, begin)
        if at < 0:
            return
        begin = at + len(start) + LETTERS
        yield table[at + 1 : begin].decode(errors="replace")


def asking_name(width: int, color: bool, live: bool, bare: bool, random_hex: str) -> str:
    """Returns the name of a client that asks for the table, for a screen of this width; `live`:
    it is a terminal, `bare`: for `andon` without a command."""
    return f"{DRAWN}/{width}/{color:d}{live:d}{bare:d}/{random_hex}"


def asked_by(name: object) -> Asked | None:
    """Returns what a client with this name asks for; None if that is no table."""
    start = f"\0{DRAWN}/".encode()
    if not isinstance(name, bytes) or not name.startswith(start):
        return None
    width, flags, *_ = (*name[len(start) :].split(b"/"), b"")
    if not (width.isdigit() and len(width) <= 4) or len(flags) != 3 or flags.strip(b"01"):
        return None
    color, live, bare = (flag == ord("1") for flag in flags)
    return int(width), color, live, bare


def drawn_answer(surroundings: str, masks: "Iterable[str]", exit_code: int, text: str) -> bytes:
    """Returns what a server sends: where it drew the table, the variables without which it did,
    the exit code and the table."""
    return "\0".join((DRAWN, surroundings, " ".join(masks), str(exit_code), text, "")).encode()


def read_drawn(
    answer: bytes, surroundings: str, environment: "Container[str]"
) -> tuple[int, str] | None:
    """Returns exit code and table; None if it is incomplete, was drawn elsewhere, or would be
    another one with the masks of this environment."""
    parts = answer.decode().split("\0")
    if len(parts) != 6 or parts[:2] != [DRAWN, surroundings]:
        return None
    if any(name in environment for name in parts[2].split()):
        return None
    return int(parts[3]), parts[4]


def is_trusted(listener: int | None, own: int, system_below: int) -> bool:
    """Whether a server that was not named is trusted: this user's, or a system account's."""
    return listener is not None and (listener == own or listener < system_below)
