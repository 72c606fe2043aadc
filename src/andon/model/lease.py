"""Leases, requests for them, tickets in the queue, and reservations."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from andon.model.codec import MOST_WHOLE, AnyNumber, Count, Index, JsonDocument
from andon.model.job.device_request import MOST_PRIORITY

MOST_BEHIND = 1_000_000
"""Jobs behind a ticket, as its owner says."""
MOST_SHARES = 1024
LARGEST_PID = 2**22  # the largest value of kernel.pid_max on any Linux
FURTHEST = 32_503_680_000.0  # the year 3000; clocks cannot show times far beyond
LONGEST_NAME = 256
ShortName = Annotated[str, Meta(max_length=LONGEST_NAME, pattern=r"\A[^\ud800-\udfff]*\Z")]
"""Any output can show it: JSON may contain a lone surrogate."""
ShortNames = Annotated[tuple[ShortName, ...], Meta(max_length=MOST_SHARES)]
LONGEST_ID = 16
ShortId = Annotated[str, Meta(max_length=LONGEST_ID, pattern=r"\A[A-Za-z0-9]+\Z")]
Moment = Annotated[float, Meta(ge=0.0, le=FURTHEST)]
Uid = Annotated[int, Meta(ge=0, le=2**32 - 1)]
OwnPid = Annotated[int, Meta(ge=1, le=LARGEST_PID)]
"""Pid 1 is a container's first process, which may hold a lease."""
MemoryPart = Annotated[int, Meta(ge=1, le=MOST_WHOLE)]
Devices = Annotated[int, Meta(ge=1, le=MOST_SHARES)]


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

    uid: Uid
    user: ShortName
    pid: OwnPid  # the holder: `release` signals it
    started_ticks: Count
    session: Annotated[int, Meta(ge=0, le=LARGEST_PID)]
    boot: ShortName | None = None
    pid_namespace: ShortName | None = None
    container: ShortName | None = None


class Work(Struct, frozen=True):
    """The process that uses the devices; its group shows whether it still runs."""

    pid: OwnPid
    started_ticks: Count
    group: OwnPid | None = None


class Share(Struct, frozen=True):
    """One device of a lease: the whole device, or part of its memory."""

    uuid: ShortName
    index: Index
    memory_bytes: MemoryPart | None = None


class Lease(JsonDocument, frozen=True):
    """A claim on devices. `since_ticks` counts from boot and does not depend on the clock."""

    schema = "andon.lease/1"
    id: ShortId
    shares: Annotated[tuple[Share, ...], Meta(min_length=1, max_length=MOST_SHARES)]
    owner: Owner
    kind: LeaseKind
    since: Moment
    since_ticks: Count
    until: AnyNumber | None = None
    command: str = ""
    work: Work | None = None
    simulated: bool = False
    even_if_used: bool = False
    fence: int = 0  # increases with every lease: a smaller one is outdated
    whom: str = ""  # for whom its owner holds it, as the owner says
    containers: ShortNames = ()  # ids of those that its owner started on its devices
    job: bool = False  # whether the queue of its owner holds it for a job

    @property
    def devices(self) -> frozenset[str]:
        return frozenset(share.uuid for share in self.shares)

    def share_of(self, uuid: str) -> Share | None:
        for share in self.shares:  # called for every lease and device: no generator
            if share.uuid == uuid:
                return share
        return None


class Claim(Struct, frozen=True):
    """A lease in the book; its user is the owner of the file, not what the file contains."""

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

    eligible: Annotated[frozenset[ShortName], Meta(max_length=MOST_SHARES)]
    least: Devices = 1
    most: Devices = 1
    memory_bytes: MemoryPart | None = None
    shared: bool = False
    balanced: bool = True
    even_if_used: bool = False


class Ticket(JsonDocument, frozen=True):
    """A place in the queue."""

    schema = "andon.ticket/1"
    id: ShortId
    owner: Owner
    need: Need
    priority: Annotated[int, Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
    since: Moment  # when it joined the queue, or moved to its end, by the kernel
    simulated: bool = False
    jobs_behind: Annotated[int, Meta(ge=0, le=MOST_BEHIND)] | None = (
        None  # of a dispatcher: jobs that wait for their turn after it
    )
    asked: float | None = None  # when it was made, as its owner says
    moved: bool = False  # to the end, by its owner


class Cordon(JsonDocument, frozen=True):
    """A device that a user took out of service."""

    schema = "andon.cordon/1"
    uuid: ShortName
    at: Moment
    by: ShortName
    reason: str = ""


class PidScope(Struct, frozen=True):
    """This boot and pid namespace: in another, the same pid means another process."""

    boot: str | None = None
    pid_namespace: str | None = None


NOWHERE = PidScope()


class Kin(Struct, frozen=True):
    """A process and its relation to others, as the kernel reports them."""

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


class ReservedDevice(Struct, frozen=True):
    """A device of a reservation."""

    uuid: ShortName
    index: Index


class Reservation(JsonDocument, frozen=True):
    """Devices for a time to come. Owner and use are those of its file, not what the file says."""

    schema = "andon.reservation/1"
    id: ShortId
    devices: Annotated[tuple[ReservedDevice, ...], Meta(min_length=1, max_length=MOST_SHARES)]
    begins: Moment
    ends: Moment
    name: ShortName = ""
    simulated: bool = False
    uid: int = -1
    user: ShortName = ""
    used: bool = False  # its owner wanted or got a lease on one of its devices in its time
    blocked: bool = False  # its time has begun, and a lease from before is still held on a device
    delayed: Moment = 0.0  # when a lease from before was last seen on a device in its time
    lapses: Moment | None = None  # when it is given back unless its owner uses it

    @property
    def uuids(self) -> frozenset[str]:
        return frozenset(one.uuid for one in self.devices)
