"""Grants leases: reads the devices, claims under the book's lock, then checks the devices again."""

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied
from andon.host.processes.kin import myself, pid_scope, ticks_now
from andon.host.users import is_root
from andon.leases.availability import (
    Availability,
    AvailabilityView,
    BookContents,
    Candidates,
)
from andon.leases.book.hold import LeaseHold
from andon.leases.book.lease_book import Book
from andon.leases.book.tickets import TicketHold
from andon.leases.placement import Grant, granted
from andon.leases.policy_file import limits_for, read_policy
from andon.leases.refusal import is_hopeless, refusal
from andon.leases.rules.policy import NO_LIMITS, Policy, UserLimits
from andon.leases.rules.queue import Place, TurnTimes, giving_way, in_order, place_of
from andon.leases.rules.rights import next_fence
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import BookEntry, Lease, LeaseKind, Owner, Share, Ticket, Work

SHORTEST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.005, 0.1
POLLS_PER_WAIT = 500  # a long wait may be polled less often
MOST_AHEAD = 15  # beyond this the interval does not grow further
BEHIND_SECONDS = 0.005  # for each ticket ahead: few changes concern the last in the queue
READING_SECONDS = 1.0  # between two readings of the devices while waiting
FAR_READING_SECONDS = 10.0  # at most, for a ticket far back in the queue


class LeaseTerms(Struct, frozen=True):
    """The purpose and the length of a lease."""

    kind: LeaseKind = LeaseKind.COMMAND
    command: str = ""
    seconds: float | None = None
    owner: Owner | None = None  # the holder, where it is not this process
    work: Work | None = None
    whom: str = ""
    uid: int | None = None  # the user whose lease it is, where that is not this process's
    usual: bool = False  # nobody chose this length: root's policy may shorten it
    jobs_behind: int | None = None  # of a dispatcher's request: jobs that wait after it
    since_ticks: int | None = None  # from which start its user's processes belong to it; else now


class NoLongerWanted(AndonError):
    """The caller no longer needs the devices."""


class Progress(Struct, frozen=True):
    """The state of a wait."""

    waited_seconds: float
    candidates: Candidates
    note: str | None = None  # why not even the queue could be read
    queued: bool = True  # whether it has a place in the queue


class GrantAttempt(Struct):
    """One request in the queue."""

    request: DeviceRequest
    terms: LeaseTerms
    began: float  # on the monotonic clock
    began_at: float  # in UTC seconds
    until: float | None
    me: Owner = field(default_factory=myself)
    limits: UserLimits = NO_LIMITS
    ticket: Ticket | None = None
    hold: TicketHold | None = None
    parked: tuple[TicketHold, Ticket] | None = None  # a place to come back to
    view: AvailabilityView | None = None
    last_reading: float = 0.0  # on the monotonic clock
    turns: Mapping[Place, float] = field(default_factory=dict)
    hint: str = ""  # what to do about the note
    names: frozenset[str] = frozenset()  # the leases in the book when it was last read
    ahead: frozenset[str] = frozenset()  # the tickets ahead of us then
    front: frozenset[str] = frozenset()  # those of them that need the same devices as we do
    lacking: float | None = None  # since which reading no device ever has enough memory
    at: float = 0.0  # when it was last judged what it would get, in UTC seconds
    spare: int = 0  # how many of those may remain when it is our turn
    unwanted: Callable[[], bool] = lambda: False
    passing: frozenset[str] = frozenset()  # tickets of our own that this one may pass

    @property
    def uid(self) -> int:
        """The user who will own the lease."""
        return os.getuid() if self.terms.uid is None else self.terms.uid

    @property
    def ticket_id(self) -> str | None:
        return None if self.ticket is None else self.ticket.id


class Granter:
    """The only way to get a device."""

    def __init__(
        self,
        book: Book,
        availability: Availability,
        policy: Callable[[], Policy] = read_policy,
        reading_seconds: float = READING_SECONDS,
    ) -> None:
        self._book, self._availability, self._policy = book, availability, policy
        self._reading_seconds = reading_seconds

    def grant(
        self,
        request: DeviceRequest,
        terms: LeaseTerms,
        timeout_seconds: float | None = None,
        waiting: Callable[[Progress], None] | None = None,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> Grant:
        """Returns a lease as soon as one is available; `timeout_seconds` 0 does not wait, None has
        no limit.

        `waiting` is called about once a second; an exception of it ends the wait. So does
        `unwanted`, which is called many times a second, with NoLongerWanted.
        """
        now, at = time.monotonic(), time.time()
        until = None if timeout_seconds is None else now + timeout_seconds
        attempt = self._limited(GrantAttempt(request, terms, now, at, until, unwanted=unwanted))
        self._refuse_pushing(request)
        self._availability.prepare(request)
        try:
            return self._wait(attempt, waiting)
        finally:
            self._leave_line(attempt)
            self._drop_parked(attempt)

    def begin(self, request: DeviceRequest, terms: LeaseTerms) -> GrantAttempt:
        """Starts a request that the caller advances with `step` and must end with `leave`."""
        self._refuse_pushing(request)
        return self._limited(GrantAttempt(request, terms, time.monotonic(), time.time(), None))

    def step(
        self,
        attempt: GrantAttempt,
        view: AvailabilityView | None = None,
        passing: frozenset[str] = frozenset(),
    ) -> Grant | Progress:
        """Tries once, without waiting. If nothing is available now, the request has a ticket
        afterwards.

        `view` is what was read a moment ago; the chosen devices are read again after the claim.
        """
        self._limited(attempt).passing = passing
        if view is None:
            self._view(attempt)
        else:
            attempt.view, attempt.last_reading = view, time.monotonic()
        if attempt.view is not None:
            self._availability.check(attempt.view.snapshot, attempt.request)
        candidates, held, note = self._try(attempt)
        waited = time.monotonic() - attempt.began
        if held is not None:
            return granted(held, candidates, waited)
        if attempt.hold is not None:
            attempt.hold.stamp(time.time())  # we are awake
        return Progress(waited, candidates, note, attempt.hold is not None)

    def put_back(self, attempt: GrantAttempt, grant: Grant) -> None:
        """Releases a lease that a request cannot use yet; first it returns to its place in the
        queue, or whoever is next would pass it."""
        with suppress(Conflict, OSError), self._book.locked():
            self._queue(attempt, grant.candidates)
        grant.release()

    def leave(self, attempt: GrantAttempt) -> None:
        """Gives up the request's place in the queue."""
        self._leave_line(attempt)
        self._drop_parked(attempt)

    def _limited(self, attempt: GrantAttempt) -> GrantAttempt:
        """Returns the request under root's limits for the user who will own the lease."""
        terms = attempt.terms
        attempt.limits = limits = limits_for(self._policy(), attempt.uid)
        if limits.max_time is not None and (terms.seconds is None or terms.usual):
            shortest = min(limits.max_time, terms.seconds or limits.max_time)
            attempt.terms = terms = replace(terms, seconds=shortest)
        limits.check_terms(attempt.request.least, terms.seconds)
        return attempt

    def _wait(self, attempt: GrantAttempt, waiting: Callable[[Progress], None] | None) -> Grant:
        self._availability.check(self._view(attempt).snapshot, attempt.request)
        while True:
            if attempt.unwanted():
                raise NoLongerWanted("the devices are no longer wanted")
            candidates, held, note = self._try(attempt)
            if held is not None:
                return granted(held, candidates, time.monotonic() - attempt.began)
            self._refuse_late(attempt, candidates, note)
            if waiting is not None:
                waited, queued = time.monotonic() - attempt.began, attempt.hold is not None
                waiting(Progress(waited, candidates, note, queued))
            self._wait_for_change(attempt, len(candidates.ahead))

    def _try(self, attempt: GrantAttempt) -> tuple[Candidates, LeaseHold | None, str | None]:
        """Claims devices under the lock, then checks again: a process without a lease may have
        started meanwhile."""
        attempt.hint = ""
        if attempt.hold is not None:  # queued: lock only when it seems to be our turn
            candidates = self._candidates(attempt)
            if not candidates.choice.chosen:
                return candidates, None, None
        try:
            with self._book.locked():
                candidates, held = self._claim(attempt)
        except Conflict as busy:
            if attempt.until is not None and attempt.until <= attempt.began:
                raise
            attempt.hint = busy.hint
            return self._candidates(attempt), None, busy.reason
        if held is None:
            return candidates, None, None
        try:
            if self._is_clean(attempt, held):
                return candidates, held, None
        except BaseException:
            held.release()
            raise
        held.release()
        self._view(attempt)
        return self._candidates(attempt), None, "a process without a lease took it first"

    def _view(self, attempt: GrantAttempt) -> AvailabilityView:
        attempt.view, attempt.last_reading = self._availability.view(), time.monotonic()
        return attempt.view

    def _claim(self, attempt: GrantAttempt) -> tuple[Candidates, LeaseHold | None]:
        attempt.names = self._book.names()
        pages = self._pages(attempt)
        candidates = self._candidates(attempt, pages)
        self._sweep(attempt, pages, candidates)
        if candidates.choice.chosen:
            lease = self._lease(attempt, candidates, pages)
            held = self._book.write_lease(lease, attempt.terms.uid)
            self._give_way(attempt, pages, lease)
            self._note_use(attempt, pages, (share.uuid for share in lease.shares))
            self._park(attempt)
            return candidates, held
        if candidates.limit is not None:
            self._leave_line(attempt)  # it could not take what would be kept for it
        elif attempt.hold is None and self._may_wait(attempt):
            self._refuse_queueing(attempt, pages)
            self._queue(attempt, candidates)
        return candidates, None

    def _note_use(
        self,
        attempt: GrantAttempt,
        pages: BookContents,
        devices: Iterable[str],
        waits: bool = False,
    ) -> None:
        """Notes that this user uses what they have reserved for now, or waits for an older lease
        to end on it."""
        if not pages.reservations:
            return
        from andon.leases.rules.reservations import current_of

        uuids = frozenset(devices)
        for one in current_of(pages.reservations, attempt.uid, time.time()):
            if not one.used and uuids & one.uuids and (one.blocked or not waits):
                self._book.note_use(one)

    def _give_way(self, attempt: GrantAttempt, pages: BookContents, lease: Lease) -> None:
        """Moves our other tickets behind this one: it is the turn of others who wait."""
        if attempt.ticket is not None and len(pages.waiting) > 1:
            line = in_order(pages.waiting, time.time(), pages.usage)
            devices = [share.uuid for share in lease.shares]
            with suppress(OSError, AndonError):
                self._book.move_to_end(giving_way(line, attempt.ticket, devices))

    def _queue(self, attempt: GrantAttempt, candidates: Candidates) -> None:
        """Takes a place in the queue, or our earlier one."""
        if attempt.parked is not None:
            hold, ticket = attempt.parked
            if hold.resume(time.time()):
                attempt.hold, attempt.ticket, attempt.parked = hold, ticket, None
                return
            self._drop_parked(attempt)
        ticket = self._ticket(attempt, candidates)
        attempt.hold = self._book.write_ticket(ticket)
        attempt.ticket = replace(ticket, since=attempt.hold.queued)

    def _candidates(self, attempt: GrantAttempt, pages: BookContents | None = None) -> Candidates:
        seen = attempt.view or self._view(attempt)
        if pages is None:
            attempt.names = self._book.names()  # first: later changes are then noticed
            pages = self._pages(attempt)
        waits = attempt.until is None or attempt.until > attempt.began
        turns = TurnTimes(time.monotonic(), attempt.turns) if waits else None
        attempt.at = at = time.time()
        seconds = attempt.terms.seconds
        until = None if seconds is None else at + seconds
        found = self._availability.candidates(
            seen, pages, attempt.request, attempt.ticket, at, turns, until, attempt.uid
        )
        if attempt.limits.bounds_devices:
            found = self._within(attempt, pages, found)
        if not found.choice.chosen:
            self._note_use(attempt, pages, found.need.eligible, waits=True)
        mine, attempt.turns = found.need.eligible, found.turns
        attempt.ahead = frozenset(ticket.id for ticket in found.ahead)
        taking = (t for t in found.ahead if place_of(t) not in found.late)
        attempt.front = frozenset(t.id for t in taking if t.need.eligible <= mine)
        attempt.spare = len(mine) - found.need.least
        return found

    def _pages(self, attempt: GrantAttempt) -> BookContents:
        pages = BookContents.of(self._book)
        return replace(pages, passing=attempt.passing) if attempt.passing else pages

    def _within(self, attempt: GrantAttempt, pages: BookContents, found: Candidates) -> Candidates:
        """Limits the candidates to as many devices as root's limits leave this user now."""
        limits, least = attempt.limits, found.need.least
        limits.check_terms(least, None)  # "all" may be too many
        held = self._held_by({attempt.uid}, pages, found.snapshot.simulated)
        of_group = 0
        if limits.max_gpus_per_group is not None:
            policy, uids = self._policy(), {entry.uid for entry in pages.entries}
            group = {one for one in uids if limits_for(policy, one).group == limits.group}
            of_group = self._held_by(group, pages, found.snapshot.simulated)
        limit = limits.over_limit(held, least, of_group)
        room = 0 if limit is not None else limits.room(held, of_group)
        chosen = found.choice.chosen[:room]
        return replace(found, choice=replace(found.choice, chosen=chosen), limit=limit)

    def _held_by(self, uids: Collection[int], pages: BookContents, simulated: bool) -> int:
        """Returns how many devices the leases of these users hold."""
        own = (e.lease for e in pages.entries if e.locked and e.uid in uids and e.lease is not None)
        alike = (lease for lease in own if lease.simulated == simulated)
        return len({share.uuid for lease in alike for share in lease.shares})

    def _refuse_queueing(self, attempt: GrantAttempt, pages: BookContents) -> None:
        """Refuses to queue beyond root's limits; jobs were counted when they were submitted."""
        if attempt.limits.max_queued is not None and attempt.terms.jobs_behind is None:
            tickets = [w.ticket for w in pages.waiting if w.ticket.owner.uid == attempt.uid]
            own = sum(ticket.jobs_behind is None for ticket in tickets)
            attempt.limits.check_queued(own)

    def _is_clean(self, attempt: GrantAttempt, held: LeaseHold) -> bool:
        """Whether no process without a lease is on the chosen devices."""
        view = self._view(attempt)
        if attempt.request.even_if_used:
            return True
        chosen = {share.uuid for share in held.lease.shares}
        mine = tuple(s for s in view.snapshot.devices if s.device.uuid in chosen)
        used = any(status.processes for status in mine)
        pages = BookContents.of(self._book) if used else self._own_page(held)
        found = self._availability.capacities(
            AvailabilityView(replace(view.snapshot, devices=mine), view.kin), pages
        )
        return len(found) == len(chosen) and not any(r.strangers or r.trouble for r in found)

    def _own_page(self, held: LeaseHold) -> BookContents:
        """Returns a book with only this lease: the check for other processes needs no more, and
        ignores a cordon made after the claim."""
        own = BookEntry(held.hold.name, os.getuid(), held.lease.owner.user, True, held.lease)
        return BookContents((own,))

    def _wait_for_change(self, attempt: GrantAttempt, ahead: int) -> None:
        """Waits until the book changes in our favour, or it is time to read the devices again."""
        due = time.monotonic() + self._reading_seconds * (1 + min(ahead, MOST_AHEAD) / 10)
        if attempt.hold is not None:
            attempt.hold.stamp(time.time())  # we are awake
        while time.monotonic() < due and not _is_over(attempt.until) and not attempt.unwanted():
            time.sleep(_poll_seconds(time.monotonic() - attempt.began, ahead))
            if self._has_changed(attempt):
                candidates = self._candidates(attempt)
                if candidates.choice.chosen:
                    break
                ahead = len(candidates.ahead)
        old = time.monotonic() - attempt.last_reading >= FAR_READING_SECONDS
        if old or not self._is_far_back(attempt):
            self._view(attempt)

    def _has_changed(self, attempt: GrantAttempt) -> bool:
        """Whether the book changed since we read it, in a way that may concern us.

        Tickets that left count too: leases that came and went leave no trace of their own.
        """
        present = self._book.ticket_ids()
        if len(attempt.front & present) > attempt.spare:
            return False
        return not attempt.ahead <= present or self._book.names() != attempt.names

    def _is_far_back(self, attempt: GrantAttempt) -> bool:
        """Whether the tickets ahead need all the devices that we could get."""
        if len(attempt.front) <= attempt.spare:
            return False
        return len(attempt.front & self._book.ticket_ids()) > attempt.spare

    def _refuse_late(self, attempt: GrantAttempt, candidates: Candidates, note: str | None) -> None:
        if self._may_wait(attempt) and not self._is_vain(attempt, candidates):
            return
        now = time.monotonic()
        waited, until = now - attempt.began, attempt.until
        late = until is not None and attempt.began < until <= now
        raise refusal(candidates, attempt.request, waited if late else None, note, attempt.hint)

    def _is_vain(self, attempt: GrantAttempt, candidates: Candidates) -> bool:
        """Whether waiting is useless. A lack of memory must be seen twice: memory of a process
        that has just ended is freed in a moment."""
        if not candidates.lacks_memory:
            attempt.lacking = None
            return is_hopeless(candidates)
        if attempt.lacking is None:
            attempt.lacking = attempt.last_reading
        return attempt.last_reading - attempt.lacking >= self._reading_seconds

    def _refuse_pushing(self, request: DeviceRequest) -> None:
        uid = os.getuid()
        if request.priority > 0 and not is_root(uid) and uid != self._book.path.stat().st_uid:
            raise Denied(
                "only root and the owner of the lease book may use a priority above 0",
                hint="use 0 or less; below 0 lets others go first",
            )

    def _leave_line(self, attempt: GrantAttempt) -> None:
        if attempt.hold is not None:
            attempt.hold.release()
        attempt.hold = attempt.ticket = None

    def _park(self, attempt: GrantAttempt) -> None:
        """Leaves the queue, keeping the ticket: the lease just taken may fail its check, and the
        request then returns to the same place."""
        if attempt.hold is not None and attempt.ticket is not None:
            attempt.hold.park()
            attempt.parked = attempt.hold, attempt.ticket
        attempt.hold = attempt.ticket = None

    def _drop_parked(self, attempt: GrantAttempt) -> None:
        if attempt.parked is not None:
            attempt.parked[0].release()
        attempt.parked = None

    def _may_wait(self, attempt: GrantAttempt) -> bool:
        return not _is_over(attempt.until)

    def _lease(self, attempt: GrantAttempt, candidates: Candidates, pages: BookContents) -> Lease:
        terms, request, at = attempt.terms, attempt.request, attempt.at  # of this claim
        size = request.memory_bytes if request.shared else None
        fences = [entry.lease.fence for entry in pages.entries if entry.lease is not None]
        devices = [capacity.status.device for capacity in candidates.choice.chosen]
        return Lease(
            id=self._book.new_id(attempt.names),
            shares=tuple(Share(device.uuid, device.index, size) for device in devices),
            owner=terms.owner or attempt.me,
            kind=terms.kind,
            since=at,
            since_ticks=ticks_now() if terms.since_ticks is None else terms.since_ticks,
            until=None if terms.seconds is None else at + terms.seconds,
            command=terms.command,
            work=terms.work,
            simulated=candidates.snapshot.simulated,
            even_if_used=request.even_if_used,
            fence=next_fence(time.time_ns() // 1000, fences),
            whom=terms.whom,
            job=terms.jobs_behind is not None,
        )

    def _ticket(self, attempt: GrantAttempt, candidates: Candidates) -> Ticket:
        return Ticket(
            id=self._book.new_id(attempt.names),
            owner=attempt.me,
            need=candidates.need,
            priority=attempt.request.priority,
            since=attempt.began_at,
            simulated=candidates.snapshot.simulated,
            jobs_behind=attempt.terms.jobs_behind,
        )

    def _sweep(self, attempt: GrantAttempt, pages: BookContents, candidates: Candidates) -> None:
        """Removes our dead files, if all their devices were read: on others a job may still run."""
        seen = {status.device.uuid for status in candidates.snapshot.devices}
        known = {one.claim.file for c in candidates.capacities for one in c.tenants}
        dead = [e for e in pages.entries if e.file not in known and _is_dead(e, seen)]
        mine = any(os.getuid() in (0, entry.uid) for entry in dead)
        if mine or any(name.startswith(".") for name in attempt.names):  # only we write now
            with suppress(OSError):
                self._book.sweep(dead)


def _is_dead(entry: BookEntry, seen: set[str]) -> bool:
    if entry.locked or entry.left:
        return False
    lease = entry.lease
    if lease is None or lease.owner.boot != pid_scope().boot:
        return True
    return all(share.uuid in seen for share in lease.shares)


def _poll_seconds(waited_seconds: float, ahead: int) -> float:
    """Returns the time between two checks of the book: short for the first in the queue, longer
    for the last."""
    patience = max(SHORTEST_POLL_SECONDS, waited_seconds / POLLS_PER_WAIT)
    return min(patience, LONGEST_POLL_SECONDS) + min(ahead, MOST_AHEAD) * BEHIND_SECONDS


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until
