"""The queue: priority, then turns between users; no one takes what a ticket ahead waits for.

A ticket is only another user's claim. One that could be served takes its devices within a second
or two; one that does not take them holds nothing after a while.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct, field

from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import can_come, hopeful, obstacle, pick
from andon.leases.rules.eligibility import Obstacle, ObstacleKind
from andon.leases.rules.usage import NO_USAGE, RecentUsage
from andon.model.lease import Need, Ticket
from andon.units import counted

ASLEEP_SECONDS = 15.0  # a waiter polls every second; after this long it counts as stopped
TAKING_SECONDS = 20.0  # for a ticket that could be served to take its devices; it needs about two
MEMORY_SECONDS = 3600.0  # how long a request that did not wait is remembered by the next one
DRIFT_SECONDS = 2.0  # tolerance for a clock that is being adjusted
UNSEEN_SECONDS = 300.0  # for a ticket that lacks only devices not visible here
MOST_OF_DISPATCHER = 4  # tickets for jobs of one user; further ones are not in line

Place = tuple[int, str]
"""A ticket's user and id."""


class Waiting(Struct, frozen=True):
    """A ticket, and when its owner last polled the book."""

    ticket: Ticket
    polled_at: float


class TurnTimes(Struct, frozen=True):
    """Since when the tickets ahead could have been served, on the monotonic clock.

    One sample cannot show how long that has been so. A waiting request knows it from its own
    earlier samples; one that does not wait, from what this user's earlier requests saw of each
    user (`users`).
    """

    at: float = 0.0
    since: Mapping[Place, float] = field(default_factory=dict)
    users: Mapping[int, float] = field(default_factory=dict)

    def since_when(self, place: Place) -> float:
        return min(self.since.get(place, self.at), self.users.get(place[0], self.at))

    def waited(self, place: Place) -> float:
        return self.at - self.since_when(place)


class Promised(Struct, frozen=True):
    """The devices held back for tickets, and since when each ticket could have taken them."""

    devices: Mapping[str, Obstacle]  # by uuid
    since: Mapping[Place, float]
    late: frozenset[Place] = frozenset()


NO_TURNS = TurnTimes()


def in_order(waiting: Iterable[Waiting], at: float, usage: RecentUsage = NO_USAGE) -> list[Ticket]:
    """Returns the queue, first to last, without tickets that are no longer polled.

    Within a priority, users take turns: everyone's first ticket, then everyone's second, in the
    order of their firsts. Those are in the order of arrival, where a user's GPU hours count as
    arriving later, by a minute at most. This is also the order in which equal requests are
    granted: when one is, its user's others move to the end (`giving_way`). A waiter leaves by
    itself when its time is over, which it counts on a clock that is never set.
    """
    awake = [
        w.ticket
        for w in waiting
        if abs(at - w.polled_at) <= ASLEEP_SECONDS  # a future time: the clock was set, or a forgery
    ]
    return _in_turns(sorted(awake, key=lambda ticket: _arrival(ticket, at, usage)), at)


def in_front_of(
    line: Sequence[Ticket], ticket: Ticket, at: float, usage: RecentUsage = NO_USAGE
) -> list[Ticket]:
    """Returns the tickets of an ordered queue ahead of this one, which may have just left it."""
    place, out = place_of(ticket), list(line)
    if place not in map(place_of, out):
        out = _in_turns(sorted((*out, ticket), key=lambda one: _arrival(one, at, usage)), at)
    places = [place_of(one) for one in out]
    return out[: places.index(place)] if place in places else out


def in_front_of_newcomer(line: Sequence[Ticket], uid: int, priority: int) -> list[Ticket]:
    """Returns the tickets ahead of one that this user would add now."""
    alike = [one for one in line if one.priority == priority]
    own = sum(one.owner.uid == uid for one in alike)
    first = next((n for n, one in enumerate(alike) if one.owner.uid == uid), len(alike))
    before = {one.owner.uid for one in alike[:first]}
    seen: dict[int, int] = {}
    out = [one for one in line if one.priority > priority]
    for one in alike:
        number = seen[one.owner.uid] = seen.get(one.owner.uid, -1) + 1
        if number < own or (number == own and one.owner.uid in before):
            out.append(one)
    return out


def giving_way(line: Sequence[Ticket], granted: Ticket, devices: Collection[str]) -> list[Ticket]:
    """Returns the tickets that move to the end of the queue once this one has these devices: its
    user's others behind it, if anyone else waits for one of the devices. Those ahead of it keep
    their place: a large request is not moved each time that a small one passes it."""
    uid = granted.owner.uid
    if not any(one.owner.uid != uid and one.need.eligible & set(devices) for one in line):
        return []
    places = [place_of(one) for one in line]
    behind = line[places.index(place_of(granted)) + 1 :] if place_of(granted) in places else ()
    return [one for one in behind if one.owner.uid == uid and one.priority == granted.priority]


def promised(
    ahead: Sequence[Ticket],
    capacities: Sequence[DeviceCapacity],
    need: Need | None = None,
    turns: TurnTimes = NO_TURNS,
) -> Promised:
    """Returns the devices that the tickets ahead are about to get, or wait for.

    A ticket that can be served gets its devices in a moment. One that cannot claims every
    device that could serve it, so that they accumulate. One that could not be served even when
    all work ends holds nothing, and neither does one that did not take what was available.
    Once too few are left for `need`, the rest of the queue makes no difference to it.
    """
    taken: dict[str, Obstacle] = {}
    since: dict[Place, float] = {}
    late: set[Place] = set()
    for ticket in ahead:
        if need is not None and len(need.eligible - taken.keys()) < need.least:
            break
        place = place_of(ticket)
        uuids, limit = _claimed(ticket.need, capacities, taken)
        if limit is not None:
            since[place] = turns.since_when(place)
            # A user's second ticket does not restart the time.
            slow = any(uid == place[0] for uid, _ in late)
            if turns.waited(place) >= limit or slow:
                late.add(place)
                continue
        count = counted(ticket.need.least, "GPU")
        reason = f"promised to {ticket.owner.user}, next in the queue ({count})"
        for uuid in uuids:
            taken.setdefault(uuid, Obstacle(ObstacleKind.NEXT, reason, by=ticket.owner.user))
    return Promised(taken, since, frozenset(late))


def remembered(
    users: Mapping[int, float], newest: Mapping[int, float], at: float
) -> dict[int, float]:
    """Returns since when each user has left available devices untaken, as far as earlier
    requests saw.

    `newest` is how many seconds ago each user's newest lease began: a user who has taken one
    since is not idle, and what was seen too long ago means nothing now.
    """
    return {
        uid: since
        for uid, since in users.items()
        if 0 <= at - since <= MEMORY_SECONDS and newest.get(uid, inf) > at - since
    }


def by_user(since: Mapping[Place, float]) -> dict[int, float]:
    """Returns the earliest time of each user."""
    users: dict[int, float] = {}
    for (uid, _), began in since.items():
        users[uid] = min(began, users.get(uid, began))
    return users


def place_of(ticket: Ticket) -> Place:
    return ticket.owner.uid, ticket.id


def _claimed(
    need: Need, capacities: Sequence[DeviceCapacity], taken: Mapping[str, Obstacle]
) -> tuple[set[str], float | None]:
    """Returns what a ticket claims, and for how long at most if it could be served as far as
    is visible here."""
    group = pick(capacities, need, taken.keys())
    if group:
        return {capacity.uuid for capacity in group}, TAKING_SECONDS
    if not can_come(capacities, need):
        return set(), None
    hoped = [capacity for capacity in capacities if hopeful(capacity, need)]
    seen = all(
        obstacle(capacity, need) is None and capacity.uuid not in taken for capacity in hoped
    )
    unseen = need.eligible - {capacity.uuid for capacity in capacities}
    return {capacity.uuid for capacity in hoped}, UNSEEN_SECONDS if seen and unseen else None


def _arrival(ticket: Ticket, at: float, usage: RecentUsage) -> tuple[int, bool, float, str]:
    """Returns a sort key of a ticket's arrival, from the kernel. A time in the future is from
    before the clock was set back, so it comes before all others."""
    own = usage.delay_seconds(ticket.owner.uid)
    delay = usage.longest_delay_seconds if ticket.moved else own
    return -ticket.priority, _is_past(ticket, at), ticket.since + delay, ticket.id


def _in_turns(arrived: Sequence[Ticket], at: float) -> list[Ticket]:
    """Orders tickets by priority, then each user's first, second and so on, in the order of the
    users' firsts.

    A user's own tickets keep the order in which they were made, also those that moved to the
    end.
    """
    jobs: dict[int, int] = {}
    own: dict[tuple[int, int], list[tuple[int, Ticket]]] = {}
    for place, ticket in enumerate(arrived):
        uid = ticket.owner.uid
        if ticket.jobs_behind is not None:
            jobs[uid] = jobs.get(uid, 0) + 1
            if jobs[uid] > MOST_OF_DISPATCHER:
                continue
        own.setdefault((ticket.priority, uid), []).append((place, ticket))
    out: list[tuple[int, int, int, Ticket]] = []
    for (priority, _), mine in own.items():
        mine.sort(key=lambda one: _made(one[1], at))
        first = mine[0][0]
        out += [(-priority, number, first, one) for number, (_, one) in enumerate(mine)]
    return [ticket for *_, ticket in sorted(out, key=lambda one: one[:3])]


def _made(ticket: Ticket, at: float) -> tuple[bool, float, float, int]:
    """Returns a sort key of a user's own tickets. Those that a dispatcher made within a tick of the
    clock of files have the same time, but not as many jobs behind them."""
    since = ticket.since
    made = since if ticket.asked is None else ticket.asked
    return _is_past(ticket, at), made, since, -(ticket.jobs_behind or 0)


def _is_past(ticket: Ticket, at: float) -> bool:
    return ticket.since <= at + DRIFT_SECONDS
