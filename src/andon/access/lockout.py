"""Limits how often an address may send a wrong key before it has to wait."""

import ipaddress
from collections import OrderedDict

from msgspec import Struct

# Which connections count together: one peer is one machine, and all of loopback is one.

LOOPBACK = "loopback"


def peer_of(address: str | None) -> str:
    """Returns a key for quotas: 127.0.0.0/8 is this machine, an IPv6 /64 is one customer."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    known = mapped or found
    if known.is_loopback:
        return LOOPBACK
    if known.version == 4:
        return str(known)
    return str(ipaddress.ip_network((known, 64), strict=False))


ALLOWED = 10
WITHIN_SECONDS = 60.0
MOST_PEERS = 4096  # addresses; the oldest are dropped first


class Count(Struct, frozen=True):
    """The failures of one address in the current period."""

    failures: int
    since: float


class Lockout:
    """Counts failures per peer, which may have many addresses."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, Count] = OrderedDict()

    def wait_seconds(self, address: str | None, now: float) -> float:
        """Returns how long the address has to wait; 0 if it may try."""
        count = self._counts.get(peer_of(address))
        if count is None or count.failures < ALLOWED:
            return 0.0
        return max(0.0, count.since + WITHIN_SECONDS - now)

    def failed(self, address: str | None, now: float) -> None:
        peer = peer_of(address)
        before = self._counts.pop(peer, None)
        if before is None or now - before.since >= WITHIN_SECONDS:
            before = Count(0, now)
        self._counts[peer] = Count(before.failures + 1, before.since)
        while len(self._counts) > MOST_PEERS:
            self._counts.popitem(last=False)

    def __len__(self) -> int:
        return len(self._counts)
