"""The connections to live events: what each has proved, and how many there may be."""

import asyncio
from collections import Counter

from msgspec import Struct, field

from andon.access.lockout import peer_of
from andon.access.roles import ANONYMOUS, Identity, Role
from andon.web.bindings.live_server import ClientSocket

MOST = 1000
MOST_ANONYMOUS = 500
"""Per peer, and all of loopback is one: the other places are for clients with a key."""


class Visitor(Struct, eq=False):
    """One connection. Only the handshake and the key in the connect packet decide its rights."""

    address: str | None
    peer: str
    trusted: bool = False
    who: Identity = ANONYMOUS
    keys: set[bytes] = field(default_factory=set)  # hashes: if one ends, so does the connection
    connection: str | None = None  # the library's name for it
    line: ClientSocket | None = None  # its WebSocket
    polls: bool = False  # a request is waiting for events
    joined: bool = False
    gone: bool = False
    due: asyncio.TimerHandle | None = None  # the timeout for its next step
    expiries: list[asyncio.TimerHandle] = field(default_factory=list)  # of its sessions


class Visitors:
    """The table of connections, with its quotas. Only handshakes add to it."""

    def __init__(self, most: int = MOST, most_anonymous: int = MOST_ANONYMOUS) -> None:
        self._most, self._most_anonymous = most, most_anonymous
        self._all: set[Visitor] = set()
        self._by_connection: dict[str, Visitor] = {}
        self._anonymous: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, address: str | None, who: Identity = ANONYMOUS) -> Visitor | None:
        """A new visitor, or None if the limit is reached."""
        trusted = who.role is not Role.ANONYMOUS
        visitor = Visitor(address, peer_of(address), trusted, who)
        if len(self._all) >= self._most:
            return None
        if not trusted:
            if self._anonymous[visitor.peer] >= self._most_anonymous:
                return None
            self._anonymous[visitor.peer] += 1
        self._all.add(visitor)
        return visitor

    def began(self, visitor: Visitor, connection: str) -> None:
        visitor.connection = connection
        self._by_connection[connection] = visitor

    def of(self, connection: str | None) -> Visitor | None:
        return None if connection is None else self._by_connection.get(connection)

    def of_key(self, name: bytes) -> list[Visitor]:
        return [one for one in self._all if name in one.keys]

    def trust(self, visitor: Visitor, who: Identity) -> None:
        """Marks a visitor as trusted after a valid key: it no longer counts as anonymous."""
        visitor.who = who
        if not visitor.trusted:
            visitor.trusted = True
            self._forget_anonymous(visitor)

    def leave(self, visitor: Visitor) -> None:
        """Removes a visitor. May be called twice: by the library and by the transport."""
        if visitor.gone:
            return
        visitor.gone = True
        self._all.discard(visitor)
        if visitor.connection is not None:
            self._by_connection.pop(visitor.connection, None)
        if not visitor.trusted:
            self._forget_anonymous(visitor)
        for timer in (visitor.due, *visitor.expiries):
            if timer is not None:
                timer.cancel()

    def _forget_anonymous(self, visitor: Visitor) -> None:
        self._anonymous[visitor.peer] -= 1
        if self._anonymous[visitor.peer] <= 0:
            del self._anonymous[visitor.peer]
