"""Takes devices for jobs of one kind, real or simulated: follows the plan and keeps tickets.

A dispatcher has at most four tickets in the queue between users, for its first jobs that wait.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import AndonError, Denied, Unavailable
from andon.host.processes.kin import myself
from andon.jobs.launching import Supervisor
from andon.jobs.rules.dispatch import (
    BlockedJob,
    Booked,
    DispatchPlan,
    QueuedJob,
    leaving,
    plan,
)
from andon.jobs.rules.states import left_devices
from andon.jobs.rules.waiting import lasts_seconds, request_of, who_has
from andon.leases.availability import (
    Availability,
    AvailabilityView,
    BookContents,
    Candidates,
)
from andon.leases.book.lease_book import Book
from andon.leases.book.places import VARIABLE
from andon.leases.granter import GrantAttempt, Granter, LeaseTerms, Progress
from andon.leases.placement import Grant
from andon.leases.refusal import clock, device_lines, hint_of, is_hopeless, refusal
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import can_come, rank
from andon.leases.rules.eligibility import ObstacleKind, need_of, no_gpu, obstacles_of, preferred
from andon.leases.rules.group import Rank
from andon.leases.rules.queue import (
    Place,
    TurnTimes,
    in_front_of_newcomer,
    in_order,
    promised,
)
from andon.leases.rules.reservations import is_over, without_reserved
from andon.leases.rules.spans import others_spans
from andon.model.device import Device
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobFacts
from andon.model.job.spec import JobSpec
from andon.model.lease import Need, Reservation, Ticket
from andon.model.naming import device_labels
from andon.model.redaction import redact
from andon.runs.opening import RunRecording
from andon.sampling.rules.masks import visibility
from andon.sampling.sampler import Sampler

MOST_TICKETS = 4
NOTHING: Mapping[int, frozenset[str]] = {}
TAKEN = frozenset((ObstacleKind.LEASED, ObstacleKind.ORPHANED, ObstacleKind.UNLEASED_PROCESS))
"""What is in the way when someone has the device."""


class BlockReason(Struct, frozen=True):
    """Why a job does not start now, with a line for each device."""

    reason: str
    details: tuple[str, ...] = ()


class DispatchRound(Struct):
    """One reading of the devices, and the decisions made from it."""

    view: AvailabilityView
    plan: DispatchPlan
    requests: dict[int, DeviceRequest] = field(default_factory=dict)
    why: dict[int, BlockReason] = field(default_factory=dict)
    vain: dict[int, str] = field(default_factory=dict)  # retries that no device here can meet
    places: dict[int, int] = field(default_factory=dict)  # of jobs with a ticket, in the queue
    booked: Booked = field(default_factory=dict)
    own: Mapping[str, Reservation] = field(default_factory=dict)  # this user's, by id
    begins: dict[int, float] = field(default_factory=dict)  # of jobs that wait for a reservation
    others: bool = False  # other users wait too: one start at a time, then it may be their turn
    at: float = 0.0

    def reserved_now(self) -> set[str]:
        """Returns the devices that this user has reserved for now."""
        return {uuid for one in self.own.values() if one.begins <= self.at for uuid in one.uuids}


class DeviceTaker:
    """Takes devices of one kind for jobs, through the lease book."""

    def __init__(
        self,
        sampler: Sampler,
        availability: Availability,
        recording: RunRecording,
        grace_seconds: float,
        book: str,
    ) -> None:
        self.sampler, self.availability, self.recording = sampler, availability, recording
        self._grace_seconds = grace_seconds
        self._placed = False
        self._book = Book({VARIABLE: book})  # the submission's: the dispatcher's may be another
        self._granter = Granter(self._book, availability)
        self._tickets: dict[int, GrantAttempt] = {}
        self._turns: Mapping[Place, float] = {}
        self._needs: dict[tuple[DeviceRequest, tuple[str, ...]], Need | AndonError] = {}

    # Deciding.

    def decide(
        self, jobs: Sequence[JobFacts], avoided: Mapping[int, frozenset[str]] = NOTHING
    ) -> DispatchRound:
        """Reads the devices, and decides which of these jobs, in their order, start now. Jobs
        leave the `avoided` devices to others if they can."""
        self._ask_places(jobs)
        view = self.availability.view()
        if not view.snapshot.devices:
            raise no_gpu(view.snapshot.faults)
        if jobs:
            self.availability.check(view.snapshot, jobs[0].spec.request)
        pages, at = BookContents.of(self._book), time.time()
        spaces = self.availability.capacities(view, pages)
        line = in_order(pages.waiting, at, pages.usage)
        before = without_reserved(self._before_us(line, jobs), pages.reservations, at)
        taken = promised(before, spaces, None, TurnTimes(time.monotonic(), self._turns))
        self._turns = taken.since
        found = DispatchRound(view, DispatchPlan(), others=len(line) > len(self._own(line)), at=at)
        ids = {ticket.id: place for place, ticket in enumerate(line, 1)}
        if pages.reservations:
            self._see_reservations(found, pages, at)
        found.places = {n: ids[t] for n, a in self._tickets.items() if (t := a.ticket_id) in ids}
        queued = self._queued(jobs, view, found, spaces, avoided)
        links = self.availability.weights.links
        found.plan = plan(
            queued, spaces, at, taken.devices.keys(), link_weight=links, booked=found.booked
        )
        return found

    def _see_reservations(self, found: DispatchRound, pages: BookContents, at: float) -> None:
        current = [one for one in pages.reservations if not is_over(one, at)]
        found.booked = others_spans(current, os.getuid(), at)
        found.own = {one.id: one for one in current if one.uid == os.getuid()}

    def _ask_places(self, jobs: Sequence[JobFacts]) -> None:
        """Reads the places of devices, once, if a job's devices or CPUs depend on them."""
        links = self.availability.weights.links > 0
        if not self._placed and any(
            one.spec.bind or (links and one.spec.request.most > 1) for one in jobs
        ):
            self._placed = True
            self.sampler.ask_places()

    def _own(self, line: Sequence[Ticket]) -> list[int]:
        own = self._own_tickets()
        return [place for place, ticket in enumerate(line) if ticket.id in own]

    def _before_us(self, line: Sequence[Ticket], jobs: Sequence[JobFacts]) -> Sequence[Ticket]:
        """Returns others' tickets ahead of our first; the plan keeps our own jobs' order."""
        own = self._own(line)
        if own:
            return line[: own[0]]
        priority = max((one.spec.priority for one in jobs), default=0)
        return in_front_of_newcomer(line, os.getuid(), priority)

    def _own_tickets(self) -> frozenset[str]:
        ids = (attempt.ticket_id for attempt in self._tickets.values())
        return frozenset(one for one in ids if one is not None)

    def _queued(
        self,
        jobs: Sequence[JobFacts],
        view: AvailabilityView,
        found: DispatchRound,
        spaces: Sequence[DeviceCapacity],
        avoided: Mapping[int, frozenset[str]],
    ) -> Iterator[QueuedJob]:
        """Yields the ready jobs lazily: if nothing is free, the plan reads only the first of a long
        queue."""
        self._needs = {}
        orders: dict[tuple[DeviceRequest, frozenset[str]], Rank] = {}
        for facts in jobs:
            left = left_devices(facts.last) | avoided.get(facts.spec.number, frozenset())
            try:
                request = request_of(facts, view.snapshot.devices, self.availability.labels)
            except Unavailable as error:
                found.vain[facts.spec.number] = _sentence(error)
                continue
            if facts.spec.reservation is not None:
                inside = self._inside(facts.spec, request, found, view)
                if inside is None:
                    continue
                request = inside
            if left:
                request = self._moved(request, left, facts.spec, view, spaces)
            need = self._need(request, facts.spec, view)
            if isinstance(need, AndonError):
                found.why[facts.spec.number] = BlockReason(_sentence(need), need.mistakes)
                continue
            found.requests[facts.spec.number] = request
            if (request, left) not in orders:
                liked = preferred(view.snapshot.devices, request, self.availability.labels)
                liked |= found.reserved_now()
                orders[request, left] = leaving(left, rank(liked, request.layout))
            lasts = lasts_seconds(facts.spec, self._grace_seconds)
            yield QueuedJob(facts.spec.number, need, lasts, orders[request, left])

    def _inside(
        self, spec: JobSpec, request: DeviceRequest, found: DispatchRound, view: AvailabilityView
    ) -> DeviceRequest | None:
        """Returns the request for the devices of the job's reservation; None outside of its
        time."""
        one, number = found.own.get(spec.reservation or ""), spec.number
        if one is None:
            found.vain[number] = f"reservation {spec.reservation} is over, or was cancelled"
            return None
        if one.begins > found.at:
            when = clock(one.begins, found.at)
            found.why[number] = BlockReason(f"waits for reservation {one.id}, from {when}")
            found.begins[number] = one.begins
            return None
        others = (s.device.uuid for s in view.snapshot.devices if s.device.uuid not in one.uuids)
        return replace(request, exclude=(*request.exclude, *others))

    def _moved(
        self,
        request: DeviceRequest,
        left: frozenset[str],
        spec: JobSpec,
        view: AvailabilityView,
        spaces: Sequence[DeviceCapacity],
    ) -> DeviceRequest:
        """Excludes the devices that the job is to leave, if others can meet its request."""
        if request.every:
            return request
        others = replace(request, exclude=(*request.exclude, *sorted(left)))
        need = self._need(others, spec, view)
        return others if isinstance(need, Need) and can_come(spaces, need) else request

    def _need(
        self, request: DeviceRequest, spec: JobSpec, view: AvailabilityView
    ) -> Need | AndonError:
        """Returns the need; computed once for all jobs with the same request."""
        hidden = self._hidden(spec, [status.device for status in view.snapshot.devices])
        key = (request, hidden)
        if key not in self._needs:
            statuses = view.snapshot.devices
            narrowed = replace(request, exclude=(*request.exclude, *hidden))
            try:
                obstacles = obstacles_of(statuses, narrowed, self.availability.labels)
                self._needs[key] = need_of(statuses, narrowed, obstacles)
            except AndonError as error:
                self._needs[key] = error
        return self._needs[key]

    def _hidden(self, spec: JobSpec, devices: Sequence[Device]) -> tuple[str, ...]:
        """Returns the devices that the masks at submission hide: a job never gets those."""
        if not spec.masks or spec.simulate is not None:
            return ()
        seen = visibility(devices, spec.masks)
        return tuple(device.uuid for device in devices if device.uuid not in seen.visible)

    # Acting.

    def take(
        self,
        facts: JobFacts,
        found: DispatchRound,
        uuids: Sequence[str],
        supervisor: Supervisor,
    ) -> Grant | BlockReason:
        """Takes a lease of these devices, with the supervisor as its owner."""
        number, request = facts.spec.number, found.requests[facts.spec.number]
        exact = replace(
            request,
            least=len(uuids),
            most=len(uuids),
            devices=tuple(uuids),
            exclude=(),
            models=(),
            labels=(),
            every=False,
        )
        ticket = self._tickets.get(number)
        terms = LeaseTerms(
            command=redact(facts.spec.argv),
            seconds=facts.spec.for_seconds,
            owner=supervisor.owner(),
            jobs_behind=0,
        )
        try:
            attempt = ticket or self._granter.begin(exact, terms)
        except Denied as refused:
            return BlockReason(_sentence(refused))
        attempt.terms = terms
        before, attempt.request = attempt.request, exact
        passing = self._own_tickets() - {attempt.ticket_id or ""}
        try:
            step = self._granter.step(attempt, found.view, passing)
        except Denied as refused:  # by root's policy: others may still start
            self._drop(number, attempt)
            return BlockReason(_sentence(refused))
        finally:
            attempt.request = before
        if ticket is None or isinstance(step, Grant):
            self._granter.leave(attempt)
            self._tickets.pop(number, None)
        return step if isinstance(step, Grant) else _block_reason(step, exact)

    def stand_in_line(self, jobs: Mapping[int, JobFacts], found: DispatchRound) -> None:
        """Takes tickets for the first waiting jobs, and stores each ticket's reason as its job's. A
        job that could not take what the plan gave it keeps its place."""
        starting = {start.number for start in found.plan.starts} & self._tickets.keys()
        most = max(0, MOST_TICKETS - len(starting))
        first = [one for one in found.plan.blocked if one.hoped][:most]
        wanted = starting | {one.number for one in first}
        for number in [n for n in self._tickets if n not in wanted]:
            self._granter.leave(self._tickets.pop(number))
        waiting = len(jobs) - len(found.plan.starts)
        for place, one in enumerate(first, 1):
            try:
                self._stand(jobs[one.number], one, found, waiting - place)
            except Denied as refused:
                self._drop(one.number, self._tickets.get(one.number))
                found.why[one.number] = BlockReason(_sentence(refused))
        self._explain_hopeless([one.number for one in found.plan.blocked if not one.hoped], found)

    def _explain_hopeless(self, numbers: Sequence[int], found: DispatchRound) -> None:
        """Explains jobs that cannot start even if every lease ends, e.g. on cordoned devices;
        they hold no ticket."""
        pages = BookContents.of(self._book) if numbers else BookContents()
        for number in numbers[:MOST_TICKETS]:
            request = found.requests[number]
            try:
                seen = self.availability.candidates(found.view, pages, request, None, time.time())
            except AndonError as error:
                found.why[number] = BlockReason(_sentence(error), error.mistakes)
            else:
                found.why[number] = _block_reason(Progress(0.0, seen), request)

    def _drop(self, number: int, attempt: GrantAttempt | None) -> None:
        if attempt is not None:
            self._granter.leave(attempt)
        self._tickets.pop(number, None)

    def _stand(
        self, facts: JobFacts, blocked: BlockedJob, found: DispatchRound, behind: int
    ) -> None:
        number = facts.spec.number
        request = found.requests[number]
        attempt = self._tickets.get(number)
        if attempt is not None and attempt.request != request:
            self._granter.leave(self._tickets.pop(number))
            attempt = None
        if attempt is None:
            terms = LeaseTerms(owner=myself(), jobs_behind=max(0, behind))
            attempt = self._granter.begin(request, terms)
            self._tickets[number] = attempt
        passing = frozenset(
            ticket
            for n, attempt in self._tickets.items()
            if n != number and (ticket := attempt.ticket_id)
        )
        step = self._granter.step(attempt, found.view, passing)
        if isinstance(step, Grant):  # free since the plan was made: the next round starts it
            self._granter.put_back(attempt, step)
            return
        found.why[number] = _block_reason(step, request, blocked)

    def names(self) -> frozenset[str]:
        """Returns the leases in the book; changes when one is added or removed."""
        return self._book.names()

    def leave(self) -> None:
        """Gives up all places in the queue."""
        for attempt in self._tickets.values():
            self._granter.leave(attempt)
        self._tickets = {}

    def close(self) -> None:
        self.leave()
        self.sampler.close()


def _block_reason(
    step: Progress, request: DeviceRequest, blocked: BlockedJob | None = None
) -> BlockReason:
    lines = tuple(device_lines(step.candidates))
    reason = refusal(step.candidates, request, None, step.note).reason
    if held := who_has(_held(step.candidates)):
        reason += f"; {held}"
    if is_hopeless(step.candidates):
        reason += f"; {hint_of(step.candidates)}"
    elif step.candidates.ahead:
        users = dict.fromkeys(ticket.owner.user for ticket in step.candidates.ahead)
        reason += f"; {', '.join(users)} ahead in the queue"
    elif blocked is not None and blocked.behind is not None:
        reason += f"; job {blocked.behind} is ahead"
    return BlockReason(reason, lines)


def _held(candidates: Candidates) -> Iterator[tuple[str, str]]:
    """Yields the label and the user of each device that is in use."""
    labels = device_labels(candidates.snapshot.devices)
    for one in candidates.choice.candidates:
        bar = one.obstacle
        if bar is not None and bar.by and bar.kind in TAKEN:
            yield labels[one.uuid], bar.by


def _sentence(error: AndonError) -> str:
    return f"{error.reason}; {error.hint}" if error.hint else error.reason
