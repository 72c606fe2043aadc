"""Who used a device, from when until when: snapshots in, intervals out."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from andon.model.codec import Name, Pid, Time, Whole
from andon.model.device import Process, Snapshot
from andon.model.programs import program_of

JOIN_SECONDS = 60.0  # a process missing for less than this has not left
FOLLOWED_SECONDS = 10.0  # a longer gap between two snapshots may be a pause

Identity = tuple[str, int, float]
"""Device, pid and when the process started."""


class UsageInterval(Struct, frozen=True):
    """One process on one device for a while."""

    device: Name
    pid: Pid
    started: Time | None
    user: Name | None
    name: Name | None  # what people call it: the script, not its interpreter
    first: Time
    last: Time
    peak_memory_bytes: Whole | None = None

    @property
    def identity(self) -> Identity:
        return self.device, self.pid, self.started or 0.0


class OpenIntervals(Struct, frozen=True):
    """The intervals that have not ended yet, by process."""

    open: Mapping[Identity, UsageInterval] = field(default_factory=dict)
    latest: Snapshot | None = None
    owed: bool = False
    """Whether the intervals have not been extended to the latest snapshot yet."""

    def follow(
        self, snapshot: Snapshot, changes: Mapping[str, float] = MappingProxyType({})
    ) -> tuple["OpenIntervals", tuple[UsageInterval, ...]]:
        """Works as `step`, but while no process comes or goes the intervals are extended later."""
        if self.latest is not None and _unchanged(self.latest, snapshot):
            return OpenIntervals(self.open, snapshot, True), ()
        settled, before = self.settle()
        stepped, changed = settled.step(snapshot, changes)
        return stepped, (*before, *changed)

    def settle(self) -> tuple["OpenIntervals", tuple[UsageInterval, ...]]:
        """Extends the intervals to the latest snapshot, before they are written."""
        return self.step(self.latest) if self.owed and self.latest is not None else (self, ())

    def step(
        self, snapshot: Snapshot, changes: Mapping[str, float] = MappingProxyType({})
    ) -> tuple["OpenIntervals", tuple[UsageInterval, ...]]:
        """Returns the state after a snapshot, and the intervals that it started or extended.
        `changes` has, by device, when processes came or left since the last one."""
        seen: dict[Identity, UsageInterval] = {}
        for status in snapshot.devices:
            if status.answered:
                for process in status.processes:
                    who = (status.device.uuid, process.pid, process.started or 0.0)
                    known = seen.get(who) or self.open.get(who)
                    came = max(changes.get(who[0], snapshot.at), process.started or 0.0)
                    seen[who] = _lengthened(known, who, process, snapshot.at, came)
        recent = {
            who: use
            for who, use in self.open.items()
            if who not in seen and snapshot.at - use.last <= JOIN_SECONDS
        }
        before = self.latest.at if self.latest else snapshot.at
        left = {
            who: replace(use, last=changes[use.device])
            for who, use in recent.items()
            if use.last == before and use.device in changes
        }
        return OpenIntervals({**recent, **left, **seen}, snapshot), (*left.values(), *seen.values())


def _unchanged(before: Snapshot, after: Snapshot) -> bool:
    """Whether the processes are unchanged: such a list is the same object."""
    return (
        0.0 <= after.at - before.at <= FOLLOWED_SECONDS
        and len(before.devices) == len(after.devices)
        and all(
            new.processes is old.processes
            and new.answered == old.answered
            and new.device.uuid == old.device.uuid
            for old, new in zip(before.devices, after.devices, strict=True)
        )
    )


def joined(uses: Iterable[UsageInterval]) -> list[UsageInterval]:
    """Returns intervals in order of time; those of one process without a real gap are joined."""
    out: dict[Identity, list[UsageInterval]] = {}
    for use in sorted(uses, key=lambda use: (use.first, use.device, use.pid)):
        row = out.setdefault(use.identity, [])
        if row and use.first - row[-1].last <= JOIN_SECONDS:
            row[-1] = _united(row[-1], use)
        else:
            row.append(use)
    found = [use for row in out.values() for use in row]
    return sorted(found, key=lambda use: (use.first, use.device, use.pid))


def _lengthened(
    known: UsageInterval | None, who: Identity, process: Process, at: float, came: float
) -> UsageInterval:
    device, pid, _ = who
    size, name = process.memory_bytes, program_of(process.command, process.name)
    if known is None or not known.first <= at <= known.last + JOIN_SECONDS:
        first = min(came, at)
        return UsageInterval(device, pid, process.started, process.user, name, first, at, size)
    peak = known.peak_memory_bytes
    if peak is None or (size is not None and size > peak):
        peak = size
    user, name = process.user or known.user, name or known.name
    return UsageInterval(device, pid, process.started, user, name, known.first, at, peak)


def _united(one: UsageInterval, other: UsageInterval) -> UsageInterval:
    sizes = [u.peak_memory_bytes for u in (one, other) if u.peak_memory_bytes is not None]
    return replace(
        one,
        user=other.user or one.user,
        name=other.name or one.name,
        first=min(one.first, other.first),
        last=max(one.last, other.last),
        peak_memory_bytes=max(sizes, default=None),
    )
