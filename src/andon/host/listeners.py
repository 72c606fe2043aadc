"""Who listens on an address and port of this machine, from the kernel's own table."""

import ipaddress
import sys
from collections.abc import Iterator, Set
from pathlib import Path

SYSTEM_UIDS = 1000  # below are root and the accounts of services
_LISTENING = "0A"


def trusted_listener(address: str, port: int, uid: int, root: Path = Path("/")) -> bool:
    """Whether this user, or an account of the system, listens there: any other user could pose."""
    owners = listeners(address, port, root)
    return bool(owners) and all(owner == uid or owner < SYSTEM_UIDS for owner in owners)


def listeners(address: str, port: int, root: Path = Path("/")) -> Set[int]:
    """The users who accept connections to this very address; empty where that is not known."""
    tables = tuple(_table(root / "proc/net" / name) for name in ("tcp", "tcp6"))
    return parse_listeners("\n".join(tables), address, port)


def parse_listeners(text: str, address: str, port: int) -> Set[int]:
    """From the lines of /proc/net/tcp and tcp6; the most specific address decides, as it does in
    the kernel. Another user's listener on 127.0.0.9 says nothing about 127.0.0.1."""
    found: dict[str, set[int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 8 and words[3] == _LISTENING and words[7].isdecimal():
            found.setdefault(words[1].upper(), set()).add(int(words[7]))
    for local in _accepting(address):
        if owners := found.get(f"{local}:{port:04X}"):
            return frozenset(owners)
    return frozenset()


def _accepting(address: str) -> Iterator[str]:
    """The local addresses, as the tables write them, that accept for this one; the first that is
    there does. `::` accepts for IPv4 only where nothing else does."""
    try:
        wanted = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return
    if isinstance(wanted, ipaddress.IPv6Address) and wanted.ipv4_mapped is not None:
        wanted = wanted.ipv4_mapped
    if isinstance(wanted, ipaddress.IPv4Address):
        yield _written(wanted)
        yield _written(ipaddress.ip_address(f"::ffff:{wanted}"))
        yield _written(ipaddress.IPv4Address(0))
    else:
        yield _written(wanted)
    yield _written(ipaddress.IPv6Address(0))


def _written(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Words of four bytes, each a number of this machine's byte order."""
    packed = address.packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _table(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
