"""Leases, requests for them, and tickets in the queue."""

from enum import StrEnum

from msgspec import Struct

from andon.model.job.device_request import MOST_PRIORITY as MOST_PRIORITY
from andon.model.job.device_request import DeviceRequest as DeviceRequest
from andon.model.job.device_request import PlacementOrder as PlacementOrder

MOST_BEHIND = 1_000_000
"""Jobs behind a ticket, as its owner says."""


class LeaseKind(StrEnum):
    """What a lease is for: a command, a program that requested it, or a network client."""

    COMMAND = "command"
    LIBRARY = "library"
    NETWORK = "network"


class LeaseState(StrEnum):
    """Status of a lease in the book."""

    HELD = "held"
    ORPHANED = "orphaned"  # its holder exited but its job still runs: withheld, and reported
    UNREADABLE = "unreadable"  # held, but its content is unreadable: everything is withheld


class Owner(Struct, frozen=True):
    """Who holds a lease or waits for one, identified as the kernel does."""

    uid: int
    user: str
    pid: int  # the holder: `release` signals it
    started_ticks: int
    session: int
    boot: str | None = None
    pid_namespace: str | None = None
    container: str | None = None


class Work(Struct, frozen=True):
    """The process that uses the devices; its group shows whether it still runs."""

    pid: int
    started_ticks: int
    group: int | None = None


class Share(Struct, frozen=True):
    """One device of a lease: the whole device, or part of its memory."""

    uuid: str
    index: int
    memory_bytes: int | None = None


class Lease(Struct, frozen=True):
    """A claim on devices. `since_ticks` counts from boot and does not depend on the clock."""

    id: str
    shares: tuple[Share, ...]
    owner: Owner
    kind: LeaseKind
    since: float
    since_ticks: int
    until: float | None = None
    command: str = ""
    work: Work | None = None
    simulated: bool = False
    even_if_used: bool = False
    fence: int = 0  # increases with every lease: a smaller one is outdated
    whom: str = ""  # for whom its owner holds it, as the owner says
    containers: tuple[str, ...] = ()  # ids of those that its owner started on its devices

    def share_of(self, uuid: str) -> Share | None:
        for share in self.shares:  # called for every lease and device: no generator
            if share.uuid == uuid:
                return share
        return None


class Claim(Struct, frozen=True):
    """A lease in the book; the user is the file's owner, whatever the file says."""

    lease: Lease | None  # None: locked but unreadable
    state: LeaseState
    uid: int
    user: str
    file: str = ""
    left: tuple[int, ...] = ()  # verified pids of its job, if its holder has exited

    @property
    def holder(self) -> str:
        """Who holds it, as shown: `root for dora`. The first name is certain."""
        whom = "" if self.lease is None else self.lease.whom
        return f"{self.user} for {whom}" if whom and whom != self.user else self.user

    def share_of(self, uuid: str) -> Share | None:
        return None if self.lease is None else self.lease.share_of(uuid)


class Need(Struct, frozen=True):
    """A request with the devices that are eligible for it."""

    eligible: frozenset[str]
    least: int = 1
    most: int = 1
    memory_bytes: int | None = None
    shared: bool = False
    balanced: bool = True
    even_if_used: bool = False


class Ticket(Struct, frozen=True):
    """A place in the queue."""

    id: str
    owner: Owner
    need: Need
    priority: int
    since: float  # when it joined the queue, or moved to its end, by the kernel
    simulated: bool = False
    jobs_behind: int | None = None  # of a dispatcher: jobs that wait for their turn after it
    asked: float | None = None  # when it was made, as its owner says; None where it never moved


class Cordon(Struct, frozen=True):
    """A device that a user took out of service."""

    uuid: str
    at: float
    by: str
    reason: str = ""


class Kin(Struct, frozen=True):
    """A process and its relation to others, from the kernel."""

    pid: int
    uid: int
    started_ticks: int
    session: int
    group: int
    container: str | None = None
    ended: bool = False  # a zombie that has not been reaped


class BookEntry(Struct, frozen=True):
    """One file of the book, before it is evaluated."""

    file: str
    uid: int
    user: str
    locked: bool
    lease: Lease | None = None  # None: not a readable lease
    left: tuple[int, ...] = ()  # if unlocked: verified pids of its job's process group
