"""What a server gives this machine's users at a local socket: its latest snapshot of the
devices.

The kernel identifies the user who connects, so that the client sends nothing: the server answers
with what this user may see, and closes. The user who listens is identified in the same way, and
must be trusted.
"""

from collections.abc import Iterator

SCHEMA = "andon.look/1"
PREFIX = "andon-look/"
LETTERS = 32
MOST_NAMES = 4  # of one port: anyone can choose such a name


def look_name(port: int, random_hex: str) -> str:
    """Returns a random name, so that no one can take it first; a client finds it by the port."""
    return f"{PREFIX}{port}/{random_hex}"


def look_names(table: bytes, port: int) -> Iterator[str]:
    """The sockets of this port in the kernel's table of Unix sockets (/proc/net/unix)."""
    start, begin = f"@{PREFIX}{port}/".encode(), 0
    for _ in range(MOST_NAMES):
        at = table.find(start, begin)
        if at < 0:
            return
        begin = at + len(start) + LETTERS
        yield table[at + 1 : begin].decode(errors="replace")


def is_trusted(listener: int | None, own: int, system_below: int) -> bool:
    """Whether a server that was not named is trusted: this user's, or a system account's."""
    return listener is not None and (listener == own or listener < system_below)
