"""Every lease of a machine at one instant, as shown to people and programs."""

from msgspec import Struct
from msgspec.structs import replace

from andon.model.codec import Amount, Id, Index, JsonDocument, Name, Pid, Signed, Text, Time, Whole
from andon.model.lease import LeaseKind, LeaseState, Reservation, Share
from andon.model.verdict import DeviceVerdict
from andon.units import iso


class LeaseRow(Struct, frozen=True):
    """One lease: its owner, what it holds and what is used.

    What cannot be read, or is not public, is None.
    """

    id: Id | None
    user: Name
    whom: Name | None  # for whom the user holds it, as the user says
    uid: Pid
    state: LeaseState
    kind: LeaseKind | None
    devices: tuple[Share, ...]
    since: Time | None
    until: Time | None
    command: Text | None
    simulated: bool
    used_bytes: Whole
    promised_bytes: Whole | None
    utilization_percent: Amount | None
    fence: Whole | None
    pid: Pid | None  # of its holder
    releasable: bool  # by the user who made this list
    not_releasable_reason: Text | None

    @property
    def holder(self) -> str:
        """`root for dora`."""
        whom = self.whom
        return f"{self.user} for {whom}" if whom and whom != self.user else self.user


class RenewedLease(Struct, frozen=True):
    """A lease whose end was moved."""

    id: Id
    until: Time


class WaitingRow(Struct, frozen=True):
    """One place in the queue; 1 is next."""

    position: Whole
    user: Name
    gpus: Whole
    memory_bytes: Whole | None
    since: Time
    priority: Signed
    jobs_behind: Whole | None = None  # the user's jobs that wait after this one
    gpu_hours: Amount | None = None  # the user's recent use, where a server counts it


class UserHours(Struct, frozen=True):
    """A user's recent GPU hours, which halve every week; they affect the order of the queue."""

    user: Name
    uid: Pid
    gpu_hours: Amount


class CordonRow(Struct, frozen=True):
    """A device that is out of service; without an index if it is not present."""

    uuid: Name
    index: Index | None
    at: Time
    by: Name
    reason: Text


class BookRow(Struct, frozen=True):
    """The folder for new leases, and its owner."""

    path: Text
    owner: Name


class ReservationList(JsonDocument, frozen=True):
    """What is reserved and not over, in the order in which it begins."""

    schema = "andon.reservations/1"
    at: Time
    reservations: tuple[Reservation, ...] = ()


class LeaseList(JsonDocument, frozen=True):
    """All leases, and whether each device is available; `note` says why a list is empty."""

    schema = "andon.leases/1"
    json_members = ("timestamp", ...)
    at: Time
    leases: tuple[LeaseRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()
    cordons: tuple[CordonRow, ...] = ()
    book: BookRow | None = None
    note: Text | None = None
    devices: tuple[DeviceVerdict, ...] = ()
    usage: tuple[UserHours, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    verdicts_for: Pid | None = None  # the uid whose requests `devices` is about; None: a stranger's

    @property
    def timestamp(self) -> str:
        """Returns `at` in readable form."""
        return iso(self.at)

    def of(self, uid: int | None, user: str | None) -> "LeaseList":
        """Returns only this account's leases and places in the queue."""
        leases = tuple(row for row in self.leases if row.uid == uid)
        waiting = tuple(row for row in self.waiting if row.user == user)
        return replace(self, leases=leases, waiting=waiting)
