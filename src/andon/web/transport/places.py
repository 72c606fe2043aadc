"""The open connections of a server: each has a seat from its accept until its socket is closed."""

import logging
from collections.abc import Callable

from andon.core.access.quotas import MOST, WAITING, PeerStanding, Quotas, gives_way, may_work
from andon.core.access.seldom import Seldom

log = logging.getLogger("andon.web")

MOST_STALLED = 64  # an answer may have megabytes
SEAT = "andon.seat"
"""The place in an ASGI scope's state for the connection's seat."""


def _nothing() -> None:
    """Of those that are gone nothing is left to be ended."""


class Seat:
    """One connection: how far it is, and how it can be ended."""

    __slots__ = ("_places", "arrived_at", "end", "has_turn", "standing", "trusted")

    def __init__(self, places: "Places", end: Callable[[], None], at: float) -> None:
        self._places = places
        self.end, self.arrived_at = end, at
        self.standing = PeerStanding.SILENT
        self.trusted = False  # whether its last request showed a right key
        self.has_turn = False  # whether its next request has waited already

    def begin(self, end: Callable[[], None]) -> None:
        """It has sent something; from now on it is ended in this way."""
        self.end = end
        self._places.move(self, PeerStanding.BEGUN)

    def work(self, trusted: bool, live: bool) -> bool:
        """Whether there is room to work for its request; the room is taken."""
        self.trusted = trusted
        return self._places.work(self, PeerStanding.LIVE if live else PeerStanding.STRANGER)

    def rest(self) -> None:
        """Its request is answered."""
        if self.standing not in WAITING:
            self._places.move(self, PeerStanding.KEPT if self.trusted else PeerStanding.BEGUN)

    def stall(self) -> None:
        self._places.stall(self)

    def flow(self) -> None:
        self._places.stalled.pop(self, None)

    def leave(self) -> None:
        """Its socket is closed; once is enough."""
        self._places.leave(self)
        self.end = _nothing  # a connection that refers to itself would wait for the collector


class Places:
    """All seats by standing, the oldest of each first."""

    def __init__(self, most: int = MOST) -> None:
        self.quotas = Quotas(most)
        self.stalled: dict[Seat, None] = {}
        self.crowded: Callable[[], None] = _nothing
        self.calmed: Callable[[], None] = _nothing
        """Called when there are many, and when few are left of them."""
        self._were_many = False
        self._given_way = Seldom()
        self._of: dict[PeerStanding, dict[Seat, None]] = {standing: {} for standing in PeerStanding}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def counts(self) -> dict[PeerStanding, int]:
        return {standing: len(seats) for standing, seats in self._of.items()}

    def oldest(self, standing: PeerStanding) -> Seat | None:
        return next(iter(self._of[standing]), None)

    def arrive(self, end: Callable[[], None], at: float) -> Seat:
        """A seat for a connection that was accepted; where all are taken, another one goes."""
        seat = Seat(self, end, at)
        self._of[seat.standing][seat] = None
        if not self._were_many and len(self) > 3 * self.quotas.tenth:
            self._were_many = True
            self.crowded()
        self._make_room(at)
        return seat

    def move(self, seat: Seat, standing: PeerStanding) -> None:
        if self._of[seat.standing].pop(seat, self) is self:
            return  # it has left
        seat.standing = standing
        self._of[standing][seat] = None

    def work(self, seat: Seat, stranger: PeerStanding) -> bool:
        wanted = PeerStanding.OWNER if seat.trusted else stranger
        seat.rest()
        if not may_work(self.quotas, self.counts(), wanted):
            log.warning(
                "a request was refused: all connections of its kind (%s) are in use", wanted
            )
            return False
        self.move(seat, wanted)
        return True

    def stall(self, seat: Seat) -> None:
        self.stalled[seat] = None
        if len(self.stalled) > MOST_STALLED:
            next(iter(self.stalled)).end()

    def leave(self, seat: Seat) -> None:
        self._of[seat.standing].pop(seat, None)
        self.stalled.pop(seat, None)
        if self._were_many and len(self) < self.quotas.tenth:
            self._were_many = False
            self.calmed()

    def _make_room(self, now: float) -> None:
        """Ended seats count until their sockets are closed, so each is taken out at once."""
        standing = gives_way(self.quotas, self.counts())
        seat = None if standing is None else self.oldest(standing)
        if seat is not None:
            self.leave(seat)
            seat.end()
            self._tell(now)

    def _tell(self, now: float) -> None:
        """Counted here: in a flood, making a record for the log would cost more than all else."""
        count = self._given_way.happened("gave way", now)
        if count is not None:
            log.warning("all connections are in use: %d without a request gave way", count)
