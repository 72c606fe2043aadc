"""The input of one step of alerting: a snapshot, and the reports of the lease book and of andon
itself."""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from andon.model.device import Snapshot
from andon.model.event import Event, Party

HOUR_SECONDS = 3600.0


class Moment(Struct, frozen=True):
    """One instant on two clocks; durations are measured only on the steady one."""

    wall: float  # UTC seconds; may be set by a person or a time server
    steady: float  # seconds since boot, including time suspended


class OwnTrouble(Struct, frozen=True):
    """A part of andon that does not work: "store", "sampler", "notifier:phone"."""

    subject: str
    reason: str
    hint: str = ""


class HeldDevices(Struct, frozen=True):
    """A claim on devices, as alerts see it: a lease, a job or a run."""

    id: str  # "lease:…", "job:…", "run:…"
    devices: tuple[str, ...]  # uuids
    since: float
    user: str | None = None
    name: str | None = None  # its purpose
    is_command: bool = False  # it runs a command, as runs and jobs do
    orphaned: bool = False  # its holder exited, but its processes still run
    who: tuple[Party, ...] = ()  # its holder; for an orphan, the processes still running
    remedy: str = ""  # the command that stops what is left of an orphan
    until: float | None = None  # its end, if it has one


class ReservedDevices(Struct, frozen=True):
    """Devices that somebody has reserved, as alerts see it."""

    id: str  # "reservation:r7"
    devices: tuple[str, ...]  # uuids
    begins: float
    ends: float
    user: str
    lapses: float | None = None  # when it is given back if nobody uses it; None once it was used

    @property
    def name(self) -> str:
        return self.id.rpartition(":")[2]

    def follows(self, devices: Iterable[str], user: str | None, until: float | None) -> bool:
        """Whether it keeps another user's lease on these devices, which ends then, from being
        extended by an hour."""
        begins_soon = until is not None and until <= self.begins < until + HOUR_SECONDS
        return begins_soon and user != self.user and not set(devices).isdisjoint(self.devices)

    def is_over(self, at: float) -> bool:
        return at >= (self.ends if self.lapses is None else min(self.lapses, self.ends))


class PreviousLease(Struct, frozen=True):
    """The previous lease of a device."""

    id: str
    user: str | None
    ended: float


class Sharing(Struct, frozen=True):
    """Facts from the lease book about devices, by uuid, besides their holders."""

    strangers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The pids that compute there without belonging to a lease on it."""
    unsure: frozenset[str] = frozenset()
    """Devices with a process whose lease cannot be determined."""
    former: Mapping[str, PreviousLease] = field(default_factory=dict)
    """Leases that ended recently or left memory in use."""


NOT_SHARED = Sharing()
"""No sharing at all."""


class Observation(Struct, frozen=True):
    """What is judged in one step. `leases` is None if they are unknown."""

    snapshot: Snapshot
    events: tuple[Event, ...] = ()
    troubles: tuple[OwnTrouble, ...] = ()
    leases: tuple[HeldDevices, ...] | None = None
    sharing: Sharing = NOT_SHARED
    reserved: tuple[ReservedDevices, ...] = ()
