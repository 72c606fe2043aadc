"""Who listens on an address and port of this machine, from the kernel's table."""

import ipaddress
import sys
from _socket import AF_INET, SOCK_STREAM, socket  # `socket` itself takes longer to import
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import closing, suppress
from errno import EAGAIN
from itertools import takewhile
from pathlib import Path

ACCEPT_SECONDS = 0.1
SYSTEM_UIDS = 1000  # below are root and service accounts
_LISTENING, _HALF_OPEN = "0A", "03"
_MAPPED = bytes(10) + b"\xff\xff"  # what an IPv4 address begins with as IPv6


def is_accepting(port: int) -> bool:
    """Whether someone accepts connections at 127.0.0.1, or is too busy to; faster than the kernel's
    table, whose search ends with all connections."""
    with suppress(OSError), closing(socket(AF_INET, SOCK_STREAM)) as connection:
        connection.settimeout(ACCEPT_SECONDS)
        return connection.connect_ex(("127.0.0.1", port)) in (0, EAGAIN)
    return False


def trusted_listener(address: str, port: int, uid: int, root: Path = Path("/")) -> bool:
    """Whether this user or a system account listens there: any other user may be an impostor."""
    owners = listeners(address, port, root)
    return bool(owners) and all(owner == uid or owner < SYSTEM_UIDS for owner in owners)


def listeners(address: str, port: int, root: Path = Path("/")) -> Set[int]:
    """Returns the users who accept connections to exactly this address; empty if unknown."""
    for name, places in _accepting(address):
        if owners := parse_listeners(_listening(root / "proc/net" / name), places, port):
            return owners
    return frozenset()


def parse_listeners(lines: Iterable[str], places: Sequence[str], port: int) -> Set[int]:
    """Finds who listens, from the lines of /proc/net/tcp or tcp6; the first of `places` that is
    found decides."""
    found: dict[str, set[int]] = {}
    for line in lines:
        fields = line.split()
        if len(fields) >= 8 and fields[3] == _LISTENING and fields[7].isdecimal():
            found.setdefault(fields[1].upper(), set()).add(int(fields[7]))
    owners = (found.get(f"{place}:{port:04X}") for place in places)
    return frozenset(next((one for one in owners if one), ()))


def listening_pids(address: str, port: int, root: Path = Path("/")) -> frozenset[int]:
    """Returns the processes that accept connections there; those of other users are unknown."""
    sockets = set()
    for name, places in _accepting(address):
        for line in _listening(root / "proc/net" / name):
            fields = line.split()
            if len(fields) > 9 and fields[1].upper() in [f"{place}:{port:04X}" for place in places]:
                sockets.add(f"socket:[{fields[9]}]")
    found = set()
    for folder in (root / "proc").glob("[0-9]*/fd") if sockets else ():
        with suppress(OSError):
            for file in folder.iterdir():
                if str(file.readlink()) in sockets:
                    found.add(int(folder.parent.name))
                    break
    return frozenset(found)


def _accepting(address: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the tables and the local addresses in them that accept connections for this one, the
    most specific first, as in the kernel: a listener on 127.0.0.9 does not matter for 127.0.0.1,
    and one on `::` accepts IPv4 only if no IPv4 listener does."""
    wanted = _packed(address)
    if wanted is None:
        return
    everywhere = _written(bytes(16))
    if len(wanted) == 4:
        yield "tcp", (_written(wanted), _written(bytes(4)))
        yield "tcp6", (_written(_MAPPED + wanted), everywhere)
    else:
        yield "tcp6", (_written(wanted), everywhere)


def _packed(address: str) -> bytes | None:
    """Returns the bytes of an address: 4, also of IPv4 that is written as IPv6, or 16."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found.packed if mapped is None else mapped.packed


def _written(packed: bytes) -> str:
    """Returns an address as the kernel writes it: 32-bit numbers, each in this machine's byte
    order."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _listening(path: Path) -> Iterator[str]:
    """Yields the lines of listening sockets. Linux writes them first; the rest of the table,
    which any user can make long (closed connections stay in it for a minute), is not read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as table:
            table.readline()
            yield from takewhile(_may_listen, table)
    except OSError:
        return


def _may_listen(line: str) -> bool:
    """Whether a line may be a listener: older kernels list half-open connections too."""
    return line.split()[3:4] in ([_LISTENING], [_HALF_OPEN])
