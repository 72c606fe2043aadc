"""Who listens on a port of this machine, from the kernel's own table."""

from pathlib import Path

SYSTEM_UIDS = 1000  # below are root and the accounts of services
_LISTENING = "0A"


def trusted_listener(port: int, uid: int, root: Path = Path("/")) -> bool:
    """Whether this user, or an account of the system, listens there: any other user could pose."""
    owners = listeners(port, root)
    return bool(owners) and all(owner == uid or owner < SYSTEM_UIDS for owner in owners)


def listeners(port: int, root: Path = Path("/")) -> set[int]:
    """The uids of those who listen on a port, on any address."""
    found: set[int] = set()
    for name in ("tcp", "tcp6"):
        try:
            text = (root / "proc/net" / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        found |= parse_listeners(text, port)
    return found


def parse_listeners(text: str, port: int) -> set[int]:
    """From the lines of /proc/net/tcp: local address, state and uid are what counts."""
    found: set[int] = set()
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or words[3] != _LISTENING or not words[7].isdecimal():
            continue
        if words[1].rpartition(":")[2].upper() == f"{port:04X}":
            found.add(int(words[7]))
    return found
