"""What a lease, a request for one, and a ticket in the queue are."""

from dataclasses import dataclass
from enum import StrEnum


class LeaseKind(StrEnum):
    """What ends a lease: a command, a program that asked for it, or its time to live."""

    COMMAND = "command"
    LIBRARY = "library"
    NETWORK = "network"


class LeaseState(StrEnum):
    """How a lease in the book stands."""

    HELD = "held"
    ORPHANED = "orphaned"  # its holder is gone, its work still lives: withheld, and reported
    UNREADABLE = "unreadable"  # somebody holds it, and it does not say what: everything is withheld


class PlacementOrder(StrEnum):
    """Whether the emptiest devices are taken first, or those that just suffice."""

    SPREAD = "spread"
    PACK = "pack"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a lease or waits for one, as the kernel tells processes apart."""

    uid: int
    user: str
    pid: int  # the holder: `release` signals it
    started_ticks: int
    session: int
    boot: str | None = None
    pid_namespace: str | None = None
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The process that the devices are for; its group tells whether it still lives."""

    pid: int
    started_ticks: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """One device of a lease: the whole, or so much of its memory."""

    uuid: str
    index: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim on devices. `since_ticks` counts from the boot and does not jump with the clock."""

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
    fence: int = 0  # grows with every lease: who holds a smaller one is too late

    def share_of(self, uuid: str) -> Share | None:
        for share in self.shares:  # asked of every lease for every device: no generator
            if share.uuid == uuid:
                return share
        return None


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease as the book shows it; the user is the file's owner, whatever the file says."""

    lease: Lease | None  # None: locked, and unreadable
    state: LeaseState
    uid: int
    user: str
    file: str = ""
    left: tuple[int, ...] = ()  # verified pids of its work, where its holder is gone

    def share_of(self, uuid: str) -> Share | None:
        return None if self.lease is None else self.lease.share_of(uuid)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What a person asks for, in the words that were typed."""

    least: int = 1
    most: int = 1
    memory_bytes: int | None = None
    shared: bool = False
    models: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    layout: PlacementOrder = PlacementOrder.SPREAD
    balanced: bool = True
    even_if_used: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Need:
    """A request once it is known which devices it may be met by."""

    eligible: frozenset[str]
    least: int = 1
    most: int = 1
    memory_bytes: int | None = None
    shared: bool = False
    balanced: bool = True
    even_if_used: bool = False


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the queue."""

    id: str
    owner: Owner
    need: Need
    priority: int
    since: float
    simulated: bool = False
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Cordon:
    """A device that is not given out, because somebody said so."""

    uuid: str
    at: float
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Kin:
    """A process as the kernel relates it to others."""

    pid: int
    uid: int
    started_ticks: int
    session: int
    group: int
    container: str | None = None
    ended: bool = False  # a zombie that nobody has reaped yet


@dataclass(frozen=True, slots=True)
class BookEntry:
    """One file of the book, before anybody has judged it."""

    file: str
    uid: int
    user: str
    locked: bool
    lease: Lease | None = None  # None: it cannot be read as a lease
    left: tuple[int, ...] = ()  # of an unlocked one: verified pids of its work's process group
