"""The open connections of a server: each has a seat from accept until its socket is closed."""

import logging
from collections.abc import Callable

from andon.access.quotas import USUAL, WAITING, ConnectionUse, Quotas, gives_way, may_work
from andon.failures.rules.repeats import RepeatLimiter

log = logging.getLogger("andon.web")

MOST_STALLED = 64  # a response may be megabytes
SEAT = "andon.seat"
"""The key in an ASGI scope's state for the connection's seat."""


def _nothing() -> None:
    """Does nothing: a closed connection has nothing left to end."""


class Seat:
    """One connection: its state, and how to end it."""

    __slots__ = ("_places", "arrived_at", "end", "has_turn", "trusted", "use")

    def __init__(self, places: "Places", end: Callable[[], None], at: float) -> None:
        self._places = places
        self.end, self.arrived_at = end, at
        self.use = ConnectionUse.SILENT
        self.trusted = False  # whether its last request had a valid key
        self.has_turn = False  # whether its next request has waited already

    def begin(self, end: Callable[[], None]) -> None:
        """Marks the connection as begun: it has sent something, and `end` closes it from now on."""
        self.end = end
        self._places.move(self, ConnectionUse.BEGUN)

    def work(self, trusted: bool, live: bool) -> bool:
        """Whether the connection's request may be served; if so, it counts from now on."""
        self.trusted = trusted
        return self._places.work(self, ConnectionUse.LIVE if live else ConnectionUse.ANONYMOUS)

    def let_in(self) -> None:
        """Marks the connection as that of a node, as long as there is room for more of them."""
        self.trusted = True
        if self._places.count(ConnectionUse.NODE) < self._places.quotas.nodes:
            self._places.move(self, ConnectionUse.NODE)
        elif self.use is not ConnectionUse.NODE:
            self._places.work(self, ConnectionUse.OWNER)

    def rest(self) -> None:
        """Marks the connection's request as answered."""
        if self.use not in (*WAITING, ConnectionUse.NODE):
            self._places.move(self, ConnectionUse.IDLE if self.trusted else ConnectionUse.BEGUN)

    def stall(self) -> None:
        self._places.stall(self)

    def flow(self) -> None:
        self._places.stalled.pop(self, None)

    def leave(self) -> None:
        """Frees the seat, because its socket is closed. May be called twice."""
        self._places.leave(self)
        self.end = _nothing  # a reference cycle would wait for the garbage collector


class Places:
    """All seats by use, oldest first."""

    def __init__(self, quotas: Quotas = USUAL, most_stalled: int = MOST_STALLED) -> None:
        self.quotas, self._most_stalled = quotas, most_stalled
        self.stalled: dict[Seat, None] = {}
        self._closed = RepeatLimiter()
        self._of: dict[ConnectionUse, dict[Seat, None]] = {use: {} for use in ConnectionUse}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def count(self, use: ConnectionUse) -> int:
        return len(self._of[use])

    def counts(self) -> dict[ConnectionUse, int]:
        return {use: len(seats) for use, seats in self._of.items()}

    def oldest(self, use: ConnectionUse) -> Seat | None:
        return next(iter(self._of[use]), None)

    def arrive(self, end: Callable[[], None], at: float) -> Seat:
        """Returns a seat for an accepted connection; if all are taken, closes another one."""
        seat = Seat(self, end, at)
        self._of[seat.use][seat] = None
        self._make_room(at)
        return seat

    def move(self, seat: Seat, use: ConnectionUse) -> None:
        if self._of[seat.use].pop(seat, self) is self:
            return  # it has left
        seat.use = use
        self._of[use][seat] = None

    def work(self, seat: Seat, anonymous: ConnectionUse) -> bool:
        wanted = ConnectionUse.OWNER if seat.trusted else anonymous
        seat.rest()
        if not may_work(self.quotas, self.counts(), wanted):
            log.warning("refused a request: all connections of its kind (%s) are in use", wanted)
            return False
        self.move(seat, wanted)
        return True

    def stall(self, seat: Seat) -> None:
        self.stalled[seat] = None
        if len(self.stalled) > self._most_stalled:
            next(iter(self.stalled)).end()

    def leave(self, seat: Seat) -> None:
        self._of[seat.use].pop(seat, None)
        self.stalled.pop(seat, None)

    def _make_room(self, now: float) -> None:
        """Closes a connection and frees its seat at once, before its socket is closed."""
        use = gives_way(self.quotas, self.counts())
        seat = None if use is None else self.oldest(use)
        if seat is not None:
            self.leave(seat)
            seat.end()
            self._log_closed(now)

    def _log_closed(self, now: float) -> None:
        """Logs closed connections as a count: in a flood, a record each would cost the most."""
        count = self._closed.happened("closed", now)
        if count is not None:
            log.warning("all connections are in use: closed %d without a request", count)
