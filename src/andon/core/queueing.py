"""Whose turn it is: priority, then first come, and nobody takes what one in front waits for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from andon.core.obstacles import Bar, Obstacle
from andon.core.placement_choice import can_come, hopeful, pick
from andon.core.rooms import Room
from andon.model.work import Need, Ticket

ASLEEP_SECONDS = 15.0  # a waiter looks every second; one that has not for so long is stopped


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ticket, and when its owner last looked."""

    ticket: Ticket
    looked: float


def in_order(waiting: Iterable[Waiting], at: float) -> list[Ticket]:
    """The line, first to last; who is past its time or does not look any more is not in it."""
    awake = [
        w.ticket
        for w in waiting
        if at - w.looked <= ASLEEP_SECONDS and (w.ticket.until is None or at <= w.ticket.until)
    ]
    return sorted(awake, key=_place)


def in_front_of(line: Sequence[Ticket], ticket: Ticket) -> list[Ticket]:
    """Those of the line that go first."""
    return [other for other in line if _place(other) < _place(ticket)]


def reserved(
    ahead: Sequence[Ticket], rooms: Sequence[Room], need: Need | None = None
) -> dict[str, Obstacle]:
    """The devices that those in front are about to get, or wait for.

    One that can be served gets its devices in a moment. One that cannot keeps every device that it
    may be met by, so that they gather for it; one that no end of work can help keeps nothing. Once
    too few are left for `need`, the rest of the line makes no difference to it.
    """
    kept: dict[str, Obstacle] = {}
    for ticket in ahead:
        if need is not None and len(need.eligible - kept.keys()) < need.least:
            break
        group = pick(rooms, ticket.need, kept.keys())
        if group:
            uuids = {room.uuid for room in group}
        elif can_come(rooms, ticket.need):
            uuids = {room.uuid for room in rooms if hopeful(room, ticket.need)}
        else:
            continue
        words = f"kept for {ticket.owner.user}, who waits in front for {_count(ticket)}"
        for uuid in uuids:
            kept.setdefault(uuid, Obstacle(Bar.RESERVED, words))
    return kept


def _place(ticket: Ticket) -> tuple[int, float, str]:
    return -ticket.priority, ticket.since, ticket.id


def _count(ticket: Ticket) -> str:
    return f"{ticket.need.least} GPU{'' if ticket.need.least == 1 else 's'}"
