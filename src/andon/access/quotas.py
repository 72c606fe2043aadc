"""How many connections may be open, how they are divided, and which is closed when all are used.

Until a request has arrived an anonymous client cannot be distinguished from the owner, and all
may come from the same address. So connections that have sent nothing are closed in favour of
newer ones, requests without a valid key get only their share, and the rest is reserved for valid
keys. Nodes that report to a hub have places of their own.
"""

from enum import StrEnum

from msgspec import Struct

MOST, MOST_NODES = 2000, 10_000
RESERVED_FILES = 512  # for the store, the readers, the log and whatever a request opens
FEWEST = 16


class ConnectionUse(StrEnum):
    """The state of a connection, and what it is used for."""

    SILENT = "silent"  # has sent nothing yet
    BEGUN = "begun"  # in a TLS handshake or a request, or between two anonymous requests
    IDLE = "kept"  # between two requests with a valid key
    ANONYMOUS = "anonymous"  # serving a request without a valid key
    LIVE = "live"  # the same, waiting for live events
    OWNER = "owner"  # serving a request with a valid key
    NODE = "node"  # of a node that was let in, while it reports and between its reports


AT_WORK = (ConnectionUse.ANONYMOUS, ConnectionUse.LIVE, ConnectionUse.OWNER)
WAITING = (ConnectionUse.SILENT, ConnectionUse.BEGUN, ConnectionUse.IDLE)
"""Those with no request to serve, in the order in which they are closed."""


class Quotas(Struct, frozen=True):
    """The maximum number of connections of each kind; the rest is reserved for the token. Nodes do
    not count among the others."""

    most: int = MOST
    nodes: int = MOST_NODES

    @property
    def tenth(self) -> int:
        return max(2, self.most // 10)

    @property
    def at_work(self) -> int:
        """The limit of requests being served; two tenths stay for connections without a request
        yet, so that anyone can send one."""
        return self.most - 2 * self.tenth

    @property
    def anonymous(self) -> int:
        """The limit of requests without a valid key; one tenth stays for those with one."""
        return self.at_work - self.tenth

    @property
    def live(self) -> int:
        """The limit of anonymous clients of live events; one tenth stays for plain requests."""
        return self.anonymous - self.tenth


USUAL = Quotas()


def quotas_for(files: int | None) -> Quotas:
    """Returns how many connections the limit of open files allows; None is no limit."""
    if files is None:
        return USUAL
    room = files - min(RESERVED_FILES, files // 2)
    most = max(FEWEST, min(MOST, room))
    return Quotas(most, max(0, min(MOST_NODES, room - most)))


def may_work(quotas: Quotas, counts: dict[ConnectionUse, int], wanted: ConnectionUse) -> bool:
    """Whether one more request may be served, by the count of connections of each kind."""
    anonymous = counts[ConnectionUse.ANONYMOUS] + counts[ConnectionUse.LIVE]
    if anonymous + counts[ConnectionUse.OWNER] >= quotas.at_work:
        return False
    if wanted is ConnectionUse.OWNER:
        return True
    if anonymous >= quotas.anonymous:
        return False
    return wanted is ConnectionUse.ANONYMOUS or counts[ConnectionUse.LIVE] < quotas.live


def gives_way(quotas: Quotas, counts: dict[ConnectionUse, int]) -> ConnectionUse | None:
    """Returns the kind whose oldest connection is closed for a new one; None if there is room.

    Silent ones are closed first, except for a tenth: a flood of unfinished requests must leave a
    new connection the time to send its first byte.
    """
    if sum(counts.values()) - counts[ConnectionUse.NODE] <= quotas.most:
        return None
    if counts[ConnectionUse.SILENT] > quotas.tenth:
        return ConnectionUse.SILENT
    for use in (ConnectionUse.BEGUN, ConnectionUse.SILENT, ConnectionUse.IDLE):
        if counts[use]:
            return use
    return None
