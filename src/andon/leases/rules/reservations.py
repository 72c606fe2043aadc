"""Reservations: which devices are kept from others until when, and which may be made; pure.

A lease that is granted after a reservation was made ends before it begins. An older lease is not
ended: the reservation begins when it can.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite

from msgspec.structs import replace

from andon.errors import Conflict, Invalid
from andon.leases.rules.eligibility import Obstacle, ObstacleKind
from andon.leases.rules.policy import WEEK_SECONDS
from andon.leases.rules.spans import Span
from andon.leases.rules.verdict import freed, withheld
from andon.model.lease import BookEntry, Reservation, Ticket
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.units import counted, human_seconds

NOBODY = -2
"""No user's uid."""
SHORTEST_SECONDS = 60.0
DAY_SECONDS = 86_400.0
MOST_AHEAD_SECONDS = 366 * 86_400.0
"""For everyone; root's policy sets how much less it is for users."""


def is_over(one: Reservation, at: float) -> bool:
    return at >= one.ends or (one.lapses is not None and at >= one.lapses)


def lapsing(one: Reservation, seconds: float | None) -> Reservation:
    """Returns a reservation with the time at which it is given back if nobody uses it: so long
    after its start, or after a lease from before was last seen there; None: at its end."""
    lapses = None if one.used or seconds is None else max(one.begins, one.delayed) + seconds
    return replace(one, lapses=lapses)


def with_older_leases(
    reservations: tuple[Reservation, ...], entries: Callable[[], Iterable[BookEntry]], at: float
) -> tuple[Reservation, ...]:
    """Returns the reservations; one begins only when the leases from before have ended, and its
    owner has not had a chance to use it until then. When a killed one ended is not known: that is
    now, for who sees it first."""
    if not any(_is_due(one, at) for one in reservations):
        return reservations
    found = [(entry, entry.lease) for entry in entries() if entry.lease is not None]
    held = [lease for entry, lease in found if entry.locked or entry.left]
    killed = [lease for entry, lease in found if not (entry.locked or entry.left)]

    def delayed(one: Reservation) -> Reservation:
        if any(delays(one, lease.since, lease.devices, at) for lease in held):
            return replace(one, blocked=True, lapses=None)
        ended = (lease for lease in killed if lease.until is None or lease.until > one.begins)
        if any(delays(one, lease.since, lease.devices, at) for lease in ended):
            return _later(one, at)
        return one

    return tuple(map(delayed, reservations))


def delays(one: Reservation, since: float, uuids: Iterable[str], at: float) -> bool:
    """Whether a lease on these devices is from before a reservation, which waits for its end."""
    return _is_due(one, at) and since < one.begins and not one.uuids.isdisjoint(uuids)


def _later(one: Reservation, at: float) -> Reservation:
    """Returns a reservation whose owner's time to use it begins at this time."""
    seconds = None if one.lapses is None else one.lapses - max(one.begins, one.delayed)
    return lapsing(replace(one, delayed=at), seconds)


def _is_due(one: Reservation, at: float) -> bool:
    return one.begins <= at < one.ends and not one.used


def reserved_by_others(
    reservations: Iterable[Reservation], uid: int, at: float, until: float | None
) -> dict[str, Obstacle]:
    """Returns why devices are kept from a user who wants a lease from now until then (None: without
    an end); the reservation that begins first counts."""
    found: dict[str, Obstacle] = {}
    for one in sorted(reservations, key=lambda other: other.begins):
        if one.uid == uid or is_over(one, at) or (until is not None and until <= one.begins):
            continue
        uuids = [device.uuid for device in one.devices if device.uuid not in found]
        if uuids:
            its_end = one.ends if one.begins <= at else None
            obstacle = Obstacle(ObstacleKind.RESERVED, _reason(one, at), its_end, one.user)
            found.update(dict.fromkeys(uuids, obstacle))
    return found


def for_user(found: LeaseList, uid: int | None) -> LeaseList:
    """Returns a list whose verdicts are those for one user (None: for a stranger), from whom their
    own reservations keep nothing. Those that are not andon's keep nothing from anyone."""
    if uid == found.verdicts_for or not found.reservations:
        return found
    ours = (one for one in found.reservations if one.uid >= 0)
    others = reserved_by_others(ours, NOBODY if uid is None else uid, found.at, None)
    devices = tuple(_verdict_for(one, others.get(one.uuid)) for one in found.devices)
    return replace(found, devices=devices, verdicts_for=uid)


def _verdict_for(known: DeviceVerdict, found: Obstacle | None) -> DeviceVerdict:
    if known.kind is not VerdictKind.FREE and known.code != ObstacleKind.RESERVED:
        return known
    return freed(known) if found is None else withheld(known, found)


def _reason(one: Reservation, at: float) -> str:
    if one.begins <= at:
        return f"reserved by {one.user} for another {human_seconds(one.ends - at)}"
    return f"reserved by {one.user} in {human_seconds(one.begins - at)}; free for a shorter --for"


def current_of(reservations: Iterable[Reservation], uid: int, at: float) -> tuple[Reservation, ...]:
    """Returns a user's reservations whose time it is now."""
    return tuple(r for r in reservations if r.uid == uid and r.begins <= at and not is_over(r, at))


def without_reserved(
    tickets: Sequence[Ticket], reservations: Sequence[Reservation], at: float
) -> list[Ticket]:
    """Returns the tickets without devices that are now reserved for others than their users, who
    cannot take these; a ticket that then has too few claims nothing."""
    now = [one for one in reservations if one.begins <= at and not is_over(one, at)]
    found = list[Ticket]()
    for ticket in tickets:
        others = frozenset(u for one in now if one.uid != ticket.owner.uid for u in one.uuids)
        left = ticket.need.eligible - others
        if left == ticket.need.eligible:
            found.append(ticket)
        elif len(left) >= ticket.need.least:
            found.append(replace(ticket, need=replace(ticket.need, eligible=left)))
    return found


def undisputed(found: Iterable[tuple[float, Reservation]], at: float) -> tuple[Reservation, ...]:
    """Returns the reservations that count, of pairs with the time at which each one's file was last
    written, by the kernel: a file that someone wrote by hand takes nothing from an earlier one of
    another user, and none reserves without an end."""
    out = list[Reservation]()
    for _, one in sorted(found, key=lambda pair: pair[0]):
        longest = max(one.ends - one.begins, one.begins - at)
        others = (other for other in out if other.uid != one.uid)
        if longest <= MOST_AHEAD_SECONDS + DAY_SECONDS and not overlapping(one, others, at):
            out.append(one)
    return tuple(out)


def first_after(
    reservations: Iterable[Reservation], uid: int, uuids: Iterable[str], at: float, until: float
) -> Reservation | None:
    """Returns another user's reservation of one of these devices that begins before `until`."""
    wanted = frozenset(uuids)
    ahead = [r for r in reservations if r.uid != uid and r.uuids & wanted and not is_over(r, at)]
    return min((r for r in ahead if r.begins < until), key=lambda r: r.begins, default=None)


def check_times(begins: float, ends: float, at: float) -> None:
    """Raises Invalid for a time that cannot be reserved."""
    if not (isfinite(begins) and isfinite(ends)):
        raise Invalid("not a time that can be reserved", hint="--from 18:00 --for 2h")
    if begins < at - SHORTEST_SECONDS:
        raise Invalid("a reservation cannot begin in the past", hint="--from 18:00, or 2h")
    if ends - begins < SHORTEST_SECONDS:
        raise Invalid("a reservation ends after it begins", hint="--for 2h, or --until 20:00")
    if ends - begins > MOST_AHEAD_SECONDS:
        raise Invalid(f"a reservation lasts {human_seconds(MOST_AHEAD_SECONDS)} at most")
    if begins - at > MOST_AHEAD_SECONDS:
        raise Invalid(f"a reservation begins within {human_seconds(MOST_AHEAD_SECONDS)}")


def week_seconds(wanted: Reservation, existing: Iterable[Reservation]) -> float:
    """Returns the most that the user would have reserved in any seven days that this reservation
    touches; it was used or not."""
    own = [r for r in existing if r.uid == wanted.uid and r.id != wanted.id]
    spans = [(r.begins, r.ends) for r in (*own, wanted)]
    # It is most where the seven days end with a reservation, or begin with one.
    edges = {edge for begins, ends in spans for edge in (ends, begins + WEEK_SECONDS)}
    return max(
        sum(max(0.0, min(e, edge) - max(b, edge - WEEK_SECONDS)) for b, e in spans)
        for edge in edges
        if wanted.begins < edge < wanted.ends + WEEK_SECONDS
    )


def overlapping(
    wanted: Reservation, existing: Iterable[Reservation], at: float
) -> dict[str, Reservation]:
    """Returns the devices that are reserved in this time, whoever's, with what reserves them."""
    return {
        uuid: one
        for one in existing
        if (one.uid, one.id) != (wanted.uid, wanted.id)
        and not is_over(one, at)
        and one.begins < wanted.ends
        and wanted.begins < one.ends
        for uuid in one.uuids & wanted.uuids
    }


def pick_devices(
    eligible: Sequence[str],
    count: int,
    times: Sequence[Span],
    existing: Sequence[Reservation],
    lease_ends: Mapping[str, float | None],
    at: float,
) -> list[str]:
    """Returns devices for a reservation: those without another one in all these times, first those
    that no lease will hold at the first start. Raises Conflict if there are too few."""
    taken = {
        uuid
        for one in existing
        if not is_over(one, at) and any(one.begins < e and b < one.ends for b, e in times)
        for uuid in one.uuids
    }
    free = [uuid for uuid in eligible if uuid not in taken]
    if len(free) < count:
        raise Conflict(
            f"{counted(count, 'GPU')} wanted, {len(free)} not reserved in that time",
            hint="andon reservations lists what is",
        )

    def held_then(uuid: str) -> bool:
        end = lease_ends.get(uuid, at)
        return end is None or end > times[0][0]

    return sorted(free, key=held_then)[:count]
