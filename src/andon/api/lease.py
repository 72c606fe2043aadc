"""`andon.lease`: leases devices for part of a program."""

import asyncio
import functools
import inspect
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from andon.api import watch as library
from andon.api.leased import ENVIRONMENT, leased
from andon.app.leases import open_availability
from andon.errors import AndonError, Gone, Unavailable
from andon.host.processes.kin import myself, pid_scope, started_ticks
from andon.leases import releaser
from andon.leases.availability import Availability, Candidates
from andon.leases.book.hold import LeaseHold
from andon.leases.book.holder import HolderProcess
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms, Progress
from andon.leases.placement import Grant, Placement
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import rank
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.leases.rules.requests import DEFAULT_LEASE_SECONDS, LeaseOptions, checked
from andon.model.device import Device, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Lease, LeaseKind, Owner, Work
from andon.model.redaction import redact
from andon.model.verdict import VerdictKind
from andon.sampling.rules.masks import visibility
from andon.units import seconds_of

log = logging.getLogger("andon")

P = ParamSpec("P")
R = TypeVar("R")


class Held:
    """A lease in force: its devices, and until when."""

    def __init__(self, grant: Grant, holder: HolderProcess) -> None:
        self._held: LeaseHold = grant.held
        self._holder, self._pid = holder, os.getpid()
        self._ended: str | None = None
        self._placement: Placement = grant

    @property
    def id(self) -> str:
        return self._held.lease.id

    @property
    def lease(self) -> Lease:
        return self._held.lease

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices, best first."""
        return self._placement.devices

    @property
    def indices(self) -> list[int]:
        """The devices' indices on this node."""
        return [device.index for device in self.devices]

    @property
    def placement(self) -> Placement:
        """The devices as `andon.map` and `andon.probe` use them; they end the lease."""
        got = self._placement
        return Placement(
            got.devices, got.environment, got.snapshot, got.lease, candidates=got.candidates,
            waited_seconds=got.waited_seconds, give_back=self.release,
        )  # fmt: skip

    @property
    def uuids(self) -> list[str]:
        return [device.uuid for device in self.devices]

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that make a process see only these devices; set them before CUDA starts."""
        return self._placement.environment

    @property
    def until(self) -> float | None:
        """When it ends; None if it has ended, or has no end."""
        return self._held.until() if self._is_open else None

    @property
    def stands(self) -> bool:
        """Whether the lease is still in force: not after its end or `andon release`."""
        left = self._held.left_seconds() if self._is_open else 0.0
        return left is None or left > 0

    @property
    def _is_open(self) -> bool:
        """Whether the holder keeps the lease: a removed file may be written again."""
        return self._held.hold.stands or (self._held.hold.descriptor >= 0 and self._holder.lives)

    @property
    def why_ended(self) -> str | None:
        """Why it is no longer in force, and who released it; None while it is."""
        if self._ended is None and not self.stands:
            self._ended = self._found_end()
        return self._ended

    def _found_end(self) -> str:
        note = self._holder.note() if os.getpid() == self._pid else None
        if note is not None:
            return note.text(self.id)
        left = self._held.left_seconds()
        expired = left is not None and left <= 0
        return f"lease {self.id} {'expired' if expired else 'has ended'}"

    def extend(self, seconds: float | str) -> None:
        """Move its end to this long from now."""
        if (why := self.why_ended) is not None:
            raise Gone(why, hint="request a new lease")
        length = seconds_of(seconds)
        book = Book(make=False)
        if not self._held.hold.stands:  # its holder has written a new file
            releaser.extend(book, self.id, length)
        lease, until = replace(self._held.lease, until=self._held.until()), time.time() + length
        releaser.move_end(book, lease, os.getuid(), until, self._held.hold.stamp)

    def release(self) -> None:
        """Release the devices; does nothing the second time, or in a forked child."""
        if os.getpid() == self._pid:
            self._ended = self.why_ended or f"lease {self.id} was released by this program"
            self._holder.disconnect()  # first: a holder whose file is gone writes it again
            self._held.release()
            self._holder.dismiss()


class LeaseRequest:
    """What `andon.lease` returns: a context manager, sync or async, and a decorator."""

    def __init__(self, ask: Callable[[Callable[[Progress], None]], Held]) -> None:
        self._ask = ask
        self._held: list[Held] = []

    def acquire(self) -> Held:
        """Wait for devices, lease them, and hold them until `release`."""
        held = self._ask(lambda progress: None)
        self._held.append(held)
        return held

    def __enter__(self) -> Held:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        _give_back(self._held.pop())

    async def __aenter__(self) -> Held:
        abandoned = threading.Event()

        def check_abandoned(progress: Progress) -> None:
            if abandoned.is_set():
                raise AndonError("no one is waiting for this lease any more")

        pending = asyncio.ensure_future(asyncio.to_thread(self._ask, check_abandoned))
        try:
            held = await asyncio.shield(pending)
        except asyncio.CancelledError:
            abandoned.set()  # the thread may already have a lease: it is released
            pending.add_done_callback(_release_late)
            raise
        self._held.append(held)
        return held

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(_give_back, self._held.pop())

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """As a decorator: each call has its own lease, and knows its devices."""
        return leased(function, lambda: LeaseRequest(self._ask))


def _give_back(held: Held) -> None:
    """Releases a lease at the end of a block; logs a warning if its devices were lost before."""
    if (why := held.why_ended) is not None:
        log.warning("%s; its devices may have been used by others since", why)
    held.release()


def _with_options(
    options: Callable[P, LeaseOptions],
) -> Callable[[Callable[[LeaseOptions], LeaseRequest]], Callable[P, LeaseRequest]]:
    """Gives a function the parameters of the table of options, for callers and type checkers."""
    signature = inspect.signature(options).replace(return_annotation=LeaseRequest)

    def decorated(
        function: Callable[[LeaseOptions], LeaseRequest],
    ) -> Callable[P, LeaseRequest]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> LeaseRequest:
            return function(options(*args, **kwargs))

        called.__dict__["__signature__"] = signature  # `wraps` copied the inner one
        return called

    return decorated


@_with_options(LeaseOptions)
def lease(options: LeaseOptions) -> LeaseRequest:
    """Lease devices: `with andon.lease(gpus=1, memory="10GiB", timeout=600) as held:`.

    `gpus` is a number or a range (`"2..4"`). The lease is exclusive; `shared` takes `memory` of a
    device and leaves the rest to others. Raises TimedOut if none became available within `timeout`
    seconds (0: do not wait; None: no limit), Conflict or Unavailable at once if waiting would not
    help. It expires after `seconds` (8 h) unless it is extended.
    """
    request, timeout, seconds = options.request(), options.timeout, options.seconds
    wait = None if timeout is None or timeout == math.inf else seconds_of(timeout)
    length = None if seconds is None else seconds_of(seconds)

    usual = seconds == DEFAULT_LEASE_SECONDS

    def ask(waiting: Callable[[Progress], None]) -> Held:
        return hold(
            request, wait, waiting, seconds=length, simulated=options.simulated, usual=usual
        )

    return LeaseRequest(ask)


def hold(
    request: DeviceRequest,
    wait_seconds: float | None,
    waiting: Callable[[Progress], None] | None = None,
    unwanted: Callable[[], bool] = lambda: False,
    *,
    seconds: float | None = None,
    simulated: bool = False,
    usual: bool = False,
) -> Held:
    """Waits for devices and leases them, with a process that holds the lease."""
    holder = HolderProcess()
    try:
        kind, work = LeaseKind.LIBRARY, own_work()
        terms = LeaseTerms(kind, _command(), seconds, _owner(holder), work, usual=usual)
        granter = Granter(Book(), outer_availability(simulated))
        grant = granter.grant(request, terms, wait_seconds, waiting, unwanted)
        _hand_over(grant, holder)
    except BaseException:
        holder.dismiss()
        raise
    return Held(grant, holder)


def _hand_over(grant: Grant, holder: HolderProcess) -> None:
    """Hands the lease to its holder, which may have been killed during the wait."""
    try:
        holder.give(grant.held)
    except OSError as exc:
        grant.held.release()
        raise Unavailable(
            f"the lease's holder has ended: {exc.strerror}", hint="request it again"
        ) from exc


def is_own(lease: Lease) -> bool:
    """Whether this process requested it, or runs under it."""
    if lease.id == os.environ.get(LEASE_VARIABLE):
        return True
    work = lease.work
    same = lease.owner.pid_namespace == pid_scope().pid_namespace and lease.owner.uid == os.getuid()
    return same and work is not None and work.pid == os.getpid()


def candidates(request: DeviceRequest) -> Candidates:
    """What a request would get now, without a lease; our own leases do not block it."""
    return _own_availability().offer(Book(make=False), request)


def available(
    memory_bytes: int | None, max_utilization: float, even_if_used: bool
) -> list[DeviceCapacity]:
    """Every device that a request for one would get now, best first."""
    seen = replace(_own_availability(), max_utilization_percent=max_utilization)
    request = checked(DeviceRequest(1, 1, memory_bytes, even_if_used=even_if_used))
    try:
        found = seen.offer(Book(make=False), request)
    except Unavailable:
        return []  # no device here can meet it
    free = {verdict.uuid for verdict in found.verdicts if verdict.kind is VerdictKind.FREE}
    return sorted((one for one in found.capacities if one.uuid in free), key=rank())


def _own_availability() -> Availability:
    """Returns the availability for checks that lease nothing: simulated devices may be shown."""
    return replace(availability(simulated=True), is_own=is_own)


def outer_availability(simulated: bool) -> Availability:
    """The availability for a grant: a leased call's own mask does not hide further devices."""
    seen = availability(simulated)
    sample = seen.sample
    return replace(seen, sample=lambda: seen_from_outside(sample()))


def seen_from_outside(snapshot: Snapshot) -> Snapshot:
    """Returns the snapshot with the devices of this process, also those its leased calls hide."""
    env = ENVIRONMENT.outside()
    return snapshot if env is None else seen_with(snapshot, env)


def seen_with(snapshot: Snapshot, env: Mapping[str, str]) -> Snapshot:
    """Returns the snapshot with the devices that these variables show."""
    visible = visibility([status.device for status in snapshot.devices], env).visible
    statuses = (
        replace(s, visible=s.device.uuid in visible, cuda_index=visible.get(s.device.uuid))
        for s in snapshot.devices
    )
    return replace(snapshot, devices=tuple(statuses))


def availability(simulated: bool) -> Availability:
    """Returns the availability from this process's sampler; its own processes are not strangers."""
    shared = library.shared()
    return open_availability(
        shared.settings,
        lambda: shared.once(with_host=False),
        simulated=simulated,
        own_pids={os.getpid()},
        ask_places=shared.ask_places,
    )


def _owner(holder: HolderProcess) -> Owner:
    return replace(myself(), pid=holder.pid, started_ticks=started_ticks(holder.pid) or 0)


def own_work() -> Work:
    """Returns this process as work; its process group only if it leads one: a shell's other jobs
    do not belong to it."""
    pid, group = os.getpid(), os.getpgid(0)
    return Work(pid, started_ticks(pid) or 0, group if group == pid > 1 else None)


def _command() -> str:
    with suppress(AttributeError):
        return redact(tuple(sys.orig_argv))
    return ""


def _release_late(pending: "asyncio.Future[Held]") -> None:
    if not pending.cancelled() and pending.exception() is None:
        pending.result().release()
