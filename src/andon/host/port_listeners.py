"""Who listens on an address and port of this machine, from the kernel's table."""

import ipaddress
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import takewhile
from pathlib import Path

SYSTEM_UIDS = 1000  # below are root and service accounts
_LISTENING, _HALF_OPEN = "0A", "03"


def trusted_listener(address: str, port: int, uid: int, root: Path = Path("/")) -> bool:
    """Whether this user or a system account listens there: any other user may be an impostor."""
    owners = listeners(address, port, root)
    return bool(owners) and all(owner == uid or owner < SYSTEM_UIDS for owner in owners)


def listeners(address: str, port: int, root: Path = Path("/")) -> Set[int]:
    """The users who accept connections to exactly this address; empty if unknown."""
    for name, places in _accepting(address):
        if owners := parse_listeners(_listening(root / "proc/net" / name), places, port):
            return owners
    return frozenset()


def parse_listeners(lines: Iterable[str], places: Sequence[str], port: int) -> Set[int]:
    """Finds who listens, from the lines of /proc/net/tcp or tcp6; the first of `places` that is
    found decides."""
    found: dict[str, set[int]] = {}
    for line in lines:
        words = line.split()
        if len(words) >= 8 and words[3] == _LISTENING and words[7].isdecimal():
            found.setdefault(words[1].upper(), set()).add(int(words[7]))
    owners = (found.get(f"{place}:{port:04X}") for place in places)
    return frozenset(next((one for one in owners if one), ()))


def _accepting(address: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the tables, and the local addresses in them that accept for this one; the most
    specific first, as in the kernel. Another user's listener on 127.0.0.9 does not matter for
    127.0.0.1, and one on `::` accepts for IPv4 only if no IPv4 listener does."""
    try:
        wanted = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return
    if isinstance(wanted, ipaddress.IPv6Address) and wanted.ipv4_mapped is not None:
        wanted = wanted.ipv4_mapped
    everywhere = _written(ipaddress.IPv6Address(0))
    if isinstance(wanted, ipaddress.IPv4Address):
        yield "tcp", (_written(wanted), _written(ipaddress.IPv4Address(0)))
        yield "tcp6", (_written(ipaddress.ip_address(f"::ffff:{wanted}")), everywhere)
    else:
        yield "tcp6", (_written(wanted), everywhere)


def _written(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Returns the address as the kernel writes it: 32-bit numbers, each in this machine's byte
    order."""
    packed = address.packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _listening(path: Path) -> Iterator[str]:
    """Yields the lines of listening sockets. Linux writes them first; the rest of the table,
    which any user can make long (closed connections stay in it for a minute), is not read."""
    try:
        with path.open(encoding="ascii", errors="replace") as table:
            table.readline()
            yield from takewhile(_may_listen, table)
    except OSError:
        return


def _may_listen(line: str) -> bool:
    """Whether a line may be a listener: older kernels list half-open connections too."""
    return line.split()[3:4] in ([_LISTENING], [_HALF_OPEN])
