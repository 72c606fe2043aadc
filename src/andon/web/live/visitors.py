"""Who is connected to live events: what each connection proved, and how many there may be."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from andon.core.access.peers import peer_of
from andon.web.bindings.client_socket import ClientSocket

MOST = 1000
MOST_ANONYMOUS = 500
"""From one peer, and all of loopback is one: the other places are for those who show a key."""


@dataclass(slots=True, eq=False)
class Visitor:
    """One connection. Only the handshake and the key in the greeting decide what it may see."""

    address: str | None
    peer: str
    trusted: bool = False
    sessions: set[bytes] = field(default_factory=set)  # when one of them ends, so does this
    connection: str | None = None  # the library's name for it
    line: ClientSocket | None = None  # its WebSocket
    polls: bool = False  # one request waits for events
    joined: bool = False
    gone: bool = False
    due: asyncio.TimerHandle | None = None  # when it has to have gone on
    expiries: list[asyncio.TimerHandle] = field(default_factory=list)  # of its sessions


class Visitors:
    """The table of connections, with its quotas. It is filled by handshakes and by nothing else."""

    def __init__(self, most: int = MOST, most_anonymous: int = MOST_ANONYMOUS) -> None:
        self._most, self._most_anonymous = most, most_anonymous
        self._all: set[Visitor] = set()
        self._by_connection: dict[str, Visitor] = {}
        self._anonymous: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, address: str | None, trusted: bool) -> Visitor | None:
        """A new one, or None where there is no place for it."""
        visitor = Visitor(address, peer_of(address), trusted)
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

    def of_session(self, session: bytes) -> list[Visitor]:
        return [one for one in self._all if session in one.sessions]

    def trust(self, visitor: Visitor) -> None:
        """It has shown a right key; its place is no longer one of the anonymous ones."""
        if not visitor.trusted:
            visitor.trusted = True
            self._forget_anonymous(visitor)

    def leave(self, visitor: Visitor) -> None:
        """Once or twice: the library and the transport both say so."""
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
