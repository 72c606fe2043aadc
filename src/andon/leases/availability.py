"""Which devices are available now: one snapshot matched with one reading of the lease book."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from andon.errors import AndonError, Invalid, Unavailable
from andon.host.clock import boot_seconds
from andon.host.files import PRIVATE_FILE, open_regular, read_regular
from andon.host.processes.kin import pid_scope, read_kin
from andon.host.state.user_folder import is_own, node_path
from andon.leases.book.lease_book import Book
from andon.leases.rules.capacity import DeviceCapacity, Surroundings, Weights, capacities
from andon.leases.rules.choice import DeviceChoice, choose, lacks_memory, rank
from andon.leases.rules.eligibility import (
    MAX_UTILIZATION_PERCENT,
    Labels,
    Obstacle,
    need_of,
    no_gpu,
    obstacles_of,
    preferred,
)
from andon.leases.rules.membership import judge
from andon.leases.rules.queue import (
    MEMORY_SECONDS,
    Place,
    Promised,
    TurnTimes,
    Waiting,
    by_user,
    in_front_of,
    in_front_of_newcomer,
    in_order,
    promised,
    remembered,
)
from andon.leases.rules.requests import checked
from andon.leases.rules.usage import NO_USAGE, RecentUsage
from andon.leases.rules.verdict import all_masked, need_of_any, verdicts, verdicts_for
from andon.model import wire
from andon.model.device import Process, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import BookEntry, Claim, Cordon, Kin, Lease, Need, Reservation, Ticket
from andon.model.verdict import DeviceVerdict
from andon.sampling.rules.masks import doubt_about

# Remembers which users left available devices untaken, for requests that do not wait.

NAME = "turns.json"
LARGEST_BYTES = 64 * 1024
MOST_USERS = 1000


class TurnMemory:
    """A small file in this machine's state folder; if it cannot be written, nothing is
    remembered.

    It changes only what this user's own requests wait for. Times count from the boot, so that
    setting a clock does not move them.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def read(self) -> dict[int, float]:
        """Returns since when each user left devices untaken, by uid, in seconds since the boot."""
        folder = self._folder or node_path()
        try:
            if not is_own(folder):
                return {}
            found = wire.loads(read_regular(folder / NAME, LARGEST_BYTES), wire.NOTE)
            if found["boot"] != pid_scope().boot:
                return {}
            times = {int(uid): float(since) for uid, since in found["users"].items()}
        except (OSError, Invalid, ValueError, KeyError, TypeError, AttributeError):
            return {}
        now = boot_seconds()
        return {uid: since for uid, since in times.items() if 0 <= now - since <= MEMORY_SECONDS}

    def write(self, users: Mapping[int, float]) -> None:
        from andon.host.state.node_folder import open_node_folder  # where someone is in front

        latest = dict(sorted(users.items(), key=lambda item: item[1])[:MOST_USERS])
        content = wire.dumps({"boot": pid_scope().boot, "users": latest})
        with suppress(OSError, AndonError):
            folder = self._folder or open_node_folder()
            draft = folder / f".{NAME}.{os.getpid()}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                with os.fdopen(open_regular(draft, flags, PRIVATE_FILE), "w") as file:
                    file.write(content)
                draft.replace(folder / NAME)
            finally:
                draft.unlink(missing_ok=True)


def implicit_simulation() -> Unavailable:
    """Returns the error of work on devices that only a variable or a setting simulates."""
    return Unavailable(
        "simulated devices are leased only with --simulate",
        hint="add --simulate to the command, or simulated=True in Python",
    )


class AvailabilityView(Struct, frozen=True):
    """The devices at one instant, and how their processes are related."""

    snapshot: Snapshot
    kin: Mapping[int, Kin]
    broken: Mapping[str, str] = field(default_factory=dict)


class BookContents(Struct, frozen=True):
    """The contents of the book at one instant."""

    entries: tuple[BookEntry, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    cordons: tuple[Cordon, ...] = ()
    usage: RecentUsage = NO_USAGE
    passing: frozenset[str] = frozenset()  # tickets of our own that the request may pass
    reservations: tuple[Reservation, ...] = ()

    @classmethod
    def of(cls, book: Book) -> "BookContents":
        waiting = tuple(book.waiting())
        usage = book.usage() if waiting else NO_USAGE
        entries, reservations = tuple(book.entries()), book.reservations()
        return cls(entries, waiting, book.cordons(), usage, reservations=reservations)


class Candidates(Struct, frozen=True):
    """The devices that a request would get now, or why not."""

    snapshot: Snapshot
    need: Need
    choice: DeviceChoice
    ahead: tuple[Ticket, ...] = ()
    capacities: tuple[DeviceCapacity, ...] = ()
    turns: Mapping[Place, float] = field(default_factory=dict)  # for a waiter's next poll
    late: frozenset[Place] = frozenset()  # tickets ahead that no longer claim anything
    limit: str | None = None  # why root's policy keeps this user from taking any now

    @property
    def verdicts(self) -> tuple[DeviceVerdict, ...]:
        """Whether each device is available for this request."""
        return verdicts_for(self.choice.candidates, self.snapshot.devices)

    @property
    def lacks_memory(self) -> bool:
        """Whether no end of work gives enough devices the memory that is needed."""
        return lacks_memory(self.capacities, self.need)

    @property
    def missing(self) -> int:
        free = sum(c.obstacle is None for c in self.choice.candidates)
        return max(0, self.need.least - free)


def _nothing() -> None:
    """Does nothing; used where samples come from elsewhere."""


class Availability(Struct, frozen=True):
    """Reads devices and book, and asks the pure modules."""

    sample: Callable[[], Snapshot]
    labels: Labels = field(default_factory=dict)
    weights: Weights = Weights()
    mine: frozenset[int] = frozenset()
    simulated: bool = False  # whether simulated devices may be claimed
    is_own: Callable[[Lease], bool] = lambda lease: False
    broken: Callable[[], Mapping[str, str]] = dict  # devices that reported that they are broken
    memory: TurnMemory | None = None  # for requests that do not wait
    max_utilization_percent: float = MAX_UTILIZATION_PERCENT  # a busier device is in use
    ask_places: Callable[[], None] = _nothing  # makes the next sample say how devices are linked

    def prepare(self, request: DeviceRequest) -> None:
        """Prepares the reading of devices for a request: links matter only for several devices."""
        if request.most > 1 and self.weights.links > 0:
            self.ask_places()

    def view(self) -> AvailabilityView:
        """A fresh snapshot; every reader has a deadline, so this returns even if a driver hangs."""
        return self.view_of(self.sample())

    def view_of(
        self,
        snapshot: Snapshot,
        related: Callable[[Iterable[Process]], Mapping[int, Kin]] | None = None,
    ) -> AvailabilityView:
        """Returns the view of a snapshot that was taken elsewhere; `related` looks up processes, by
        default in /proc."""
        real = [s for s in snapshot.devices if s.device.vendor != "sim"]
        found = [process for status in real for process in status.processes]
        kin = related(found) if related else read_kin((one.pid for one in found), containers=True)
        return AvailabilityView(snapshot, kin, self.broken())

    def check(self, snapshot: Snapshot, request: DeviceRequest) -> None:
        """Refuses a request that makes no sense, or claims devices that do not exist."""
        if checked(request).least < 1:
            raise Invalid("a lease needs at least one device", hint="request 1 GPU or more")
        if "replay" in snapshot.versions:
            raise Unavailable("the devices of a recorded file cannot be leased")
        if snapshot.simulated and not self.simulated:
            raise implicit_simulation()
        self._refuse_doubt(snapshot)

    def offer(
        self, book: Book, request: DeviceRequest, turns: TurnTimes | None = None
    ) -> Candidates:
        """Returns what a request would get now if it were made, without taking it."""
        self.prepare(request)
        view = self.view()
        self._refuse_doubt(view.snapshot)
        return self.candidates(view, BookContents.of(book), request, None, time.time(), turns)

    def verdicts(
        self,
        snapshot: Snapshot,
        capacities: Sequence[DeviceCapacity],
        pages: BookContents,
        at: float,
    ) -> tuple[DeviceVerdict, ...]:
        """Whether each device is available for a request of one whole device."""
        line, need = in_order(pages.waiting, at, pages.usage), need_of_any(capacities)
        ahead = _able(in_front_of_newcomer(line, os.getuid(), 0), pages, at)
        taken = self._promised_at_once(ahead, capacities, need, pages, at).devices
        taken = {**taken, **self._reserved(pages, os.getuid(), at, None)[0]}
        if (doubt := doubt_about(snapshot.devices, os.environ)) is not None:
            taken = all_masked(capacities, doubt)
        return verdicts(capacities, taken)

    def _refuse_doubt(self, snapshot: Snapshot) -> None:
        if (doubt := doubt_about(snapshot.devices, os.environ)) is not None:
            raise Unavailable(doubt, hint="name them by UUID in CUDA_VISIBLE_DEVICES")

    def claims(self, view: AvailabilityView, pages: BookContents) -> tuple[Claim, ...]:
        return judge(pages.entries, view.snapshot.devices, view.kin, pid_scope())

    def capacities(self, view: AvailabilityView, pages: BookContents) -> tuple[DeviceCapacity, ...]:
        claims = self.claims(view, pages)
        own = (c.lease.id for c in claims if c.lease is not None and self.is_own(c.lease))
        around = Surroundings(
            claims=claims,
            cordons=pages.cordons,
            kin=view.kin,
            scope=pid_scope(),
            mine=self.mine,
            own=frozenset(own),
            broken=view.broken,
            max_utilization_percent=self.max_utilization_percent,
        )
        return capacities(view.snapshot.devices, around, self.weights)

    def candidates(
        self,
        view: AvailabilityView,
        pages: BookContents,
        request: DeviceRequest,
        ticket: Ticket | None,
        at: float,
        turns: TurnTimes | None = None,
        until: float | None = None,
        uid: int | None = None,
    ) -> Candidates:
        """Returns what the request would get now, for a lease until then (None: without an end);
        without a ticket it comes last.

        A waiter passes in what it saw before: tickets ahead must take what they could have. For
        a request that does not wait, `memory` holds what this user's earlier requests saw.
        """
        statuses = view.snapshot.devices
        if not statuses:
            raise no_gpu(view.snapshot.faults)
        found = obstacles_of(statuses, request, self.labels)
        need = need_of(statuses, request, found)
        spaces = self.capacities(view, pages)
        line = in_order(pages.waiting, at, pages.usage)
        if ticket is None:
            before = in_front_of_newcomer(line, os.getuid(), request.priority)
        else:
            before = in_front_of(line, ticket, at, pages.usage)
        able = _able(before, pages, at)
        ahead = tuple(one for one in able if one.id not in pages.passing)
        if turns is None:
            taken = self._promised_at_once(ahead, spaces, need, pages, at)
        else:
            taken = promised(ahead, spaces, need, turns)
        user = os.getuid() if uid is None else uid
        booked, own = self._reserved(pages, user, at, until)
        order = rank(preferred(statuses, request, self.labels) | own, request.layout)
        barred = {**taken.devices, **booked} if booked else taken.devices
        choice = choose(spaces, need, found, barred, order, self.weights.links)
        return Candidates(view.snapshot, need, choice, ahead, spaces, taken.since, taken.late)

    def _reserved(
        self, pages: BookContents, uid: int, at: float, until: float | None
    ) -> tuple[Mapping[str, Obstacle], frozenset[str]]:
        """Returns what others have reserved before then, and what this user has now."""
        if not pages.reservations:
            return {}, frozenset()
        from andon.leases.rules.reservations import current_of, reserved_by_others

        own = (uuid for one in current_of(pages.reservations, uid, at) for uuid in one.uuids)
        return reserved_by_others(pages.reservations, uid, at, until), frozenset(own)

    def _promised_at_once(
        self,
        ahead: Sequence[Ticket],
        spaces: Sequence[DeviceCapacity],
        need: Need,
        pages: BookContents,
        at: float,
    ) -> Promised:
        """Returns what is promised, for a request that does not wait: the file is written only if
        another request is in front."""
        if self.memory is None or not ahead:
            return promised(ahead, spaces, need)
        now, before = boot_seconds(), self.memory.read()
        users = remembered(before, _newest_leases(pages, at), now)
        taken = promised(ahead, spaces, need, TurnTimes(now, users=users))
        if (after := users | by_user(taken.since)) != before:
            self.memory.write(after)
        return taken


def _able(tickets: Sequence[Ticket], pages: BookContents, at: float) -> Sequence[Ticket]:
    """Returns the tickets with the devices that their users may take now."""
    if not pages.reservations:
        return tickets
    from andon.leases.rules.reservations import without_reserved

    return without_reserved(tickets, pages.reservations, at)


def _newest_leases(pages: BookContents, at: float) -> dict[int, float]:
    """Returns how many seconds ago each user's newest lease began, by uid."""
    newest: dict[int, float] = {}
    for entry in pages.entries:
        if entry.locked and entry.lease is not None:
            age = at - entry.lease.since
            newest[entry.uid] = min(age, newest.get(entry.uid, age))
    return newest
