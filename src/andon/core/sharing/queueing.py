"""Whose turn it is: priority, then first come, and nobody takes what one in front waits for.

A ticket is another user's word. One that could be served takes its devices within a second or
two; one that does not take them keeps nothing from the others after a while.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from andon.core.sharing.capacity import DeviceCapacity
from andon.core.sharing.choice import can_come, hopeful, obstacle, pick
from andon.core.sharing.obstacles import Obstacle, ObstacleKind
from andon.model.work import Need, Ticket

ASLEEP_SECONDS = 15.0  # a waiter looks every second; one that has not for so long is stopped
TAKING_SECONDS = 20.0  # for one that could be served to take its devices: it needs about two
UNSEEN_SECONDS = 300.0  # for one that lacks only devices that cannot be seen from here

Place = tuple[int, str]
"""Whose ticket, and which."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ticket, and when its owner last looked."""

    ticket: Ticket
    looked: float


@dataclass(frozen=True, slots=True)
class Turns:
    """Since when those in front could have been served, on a clock that no one can set.

    Only who waits can know that: one look says nothing about how long it has been so.
    """

    at: float = 0.0
    since: Mapping[Place, float] = field(default_factory=dict)

    def waited(self, place: Place) -> float:
        return self.at - self.since.get(place, self.at)


@dataclass(frozen=True, slots=True)
class Reserved:
    """The devices that are kept, for whom, and since when each of those could have taken them."""

    kept: Mapping[str, Obstacle]
    since: Mapping[Place, float]
    late: frozenset[Place] = frozenset()


NO_TURNS = Turns()


def in_order(waiting: Iterable[Waiting], at: float) -> list[Ticket]:
    """The line, first to last; who is past its time or does not look any more is not in it."""
    awake = [
        w.ticket
        for w in waiting
        if abs(at - w.looked) <= ASLEEP_SECONDS  # a time to come is a clock that was set, or a lie
        and (w.ticket.until is None or at <= w.ticket.until)
    ]
    return sorted(awake, key=_place)


def in_front_of(line: Sequence[Ticket], ticket: Ticket) -> list[Ticket]:
    """Those of the line that go first."""
    return [other for other in line if _place(other) < _place(ticket)]


def reserved(
    ahead: Sequence[Ticket],
    rooms: Sequence[DeviceCapacity],
    need: Need | None = None,
    turns: Turns = NO_TURNS,
) -> Reserved:
    """The devices that those in front are about to get, or wait for.

    One that can be served gets its devices in a moment. One that cannot keeps every device that it
    may be met by, so that they gather for it; one that no end of work can help keeps nothing, and
    neither does one that has not taken what it could have had. Once too few are left for `need`,
    the rest of the line makes no difference to it.
    """
    kept: dict[str, Obstacle] = {}
    since: dict[Place, float] = {}
    late: set[Place] = set()
    for ticket in ahead:
        if need is not None and len(need.eligible - kept.keys()) < need.least:
            break
        place = place_of(ticket)
        uuids, limit = _claimed(ticket.need, rooms, kept)
        if limit is not None:
            since[place] = turns.since.get(place, turns.at)
            # A user's second ticket does not start the time again.
            slow = any(uid == place[0] for uid, _ in late)
            if turns.waited(place) >= limit or slow:
                late.add(place)
                continue
        words = f"reserved for {ticket.owner.user}, ahead in the queue for {_count(ticket)}"
        for uuid in uuids:
            kept.setdefault(uuid, Obstacle(ObstacleKind.RESERVED, words))
    return Reserved(kept, since, frozenset(late))


def place_of(ticket: Ticket) -> Place:
    return ticket.owner.uid, ticket.id


def _claimed(
    need: Need, rooms: Sequence[DeviceCapacity], kept: Mapping[str, Obstacle]
) -> tuple[set[str], float | None]:
    """What a ticket keeps from the others, and for how long at most where it could be served as
    far as can be seen."""
    group = pick(rooms, need, kept.keys())
    if group:
        return {room.uuid for room in group}, TAKING_SECONDS
    if not can_come(rooms, need):
        return set(), None
    hoped = [room for room in rooms if hopeful(room, need)]
    seen = all(obstacle(room, need) is None and room.uuid not in kept for room in hoped)
    unseen = need.eligible - {room.uuid for room in rooms}
    return {room.uuid for room in hoped}, UNSEEN_SECONDS if seen and unseen else None


def _place(ticket: Ticket) -> tuple[int, float, str]:
    return -ticket.priority, ticket.since, ticket.id


def _count(ticket: Ticket) -> str:
    return f"{ticket.need.least} GPU{'' if ticket.need.least == 1 else 's'}"
