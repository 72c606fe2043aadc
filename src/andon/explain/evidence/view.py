"""One device as its conditions see it, and its readings as evidence."""

from collections.abc import Callable, Iterator, Sequence

from andon.explain.evidence.blame import Blame, blamed, owns_memory
from andon.explain.evidence.departures import NOTHING_KNOWN, EndedProcess, EndedProcesses, departed
from andon.explain.evidence.observation import HeldDevices
from andon.explain.evidence.phrasing import Clause, listed, phrase
from andon.explain.evidence.reasons import Evidence
from andon.explain.evidence.track import Reasons, Track, updated_track
from andon.model.device import (
    Device,
    DeviceStatus,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)
from andon.model.programs import program_of
from andon.model.thresholds import Thresholds
from andon.model.utilisation import BARELY_BUSY_PERCENT
from andon.units import symbol_of

BUSY_PERCENT = 50
RECENT_SECONDS = 60.0


class View:
    """One device as its conditions see it: now, in its recent past, and among its neighbours.

    One is made per device and sample, so it is a plain class.
    """

    __slots__ = (
        "departures", "device", "divided", "figures", "held", "past", "reasons", "sample",
        "snapshot", "status", "track",
    )  # fmt: skip

    def __init__(
        self,
        snapshot: Snapshot,
        status: DeviceStatus,
        figures: Thresholds,
        track: Track,
        reasons: Reasons | None,
        divided: bool = False,
        held: HeldDevices | None = None,
        past: tuple[DeviceStatus, ...] = (),
        departures: EndedProcesses = NOTHING_KNOWN,
    ) -> None:
        sample = status.sample if status.state is State.OK else None
        self.snapshot = snapshot
        self.status = status
        self.device = status.device
        self.sample = Sample(at=snapshot.at) if sample is None else sample  # if silent: unknown
        self.figures = figures  # the thresholds in force for it
        self.track = track
        self.reasons = reasons  # throttle reasons now or a moment ago
        self.divided = divided  # a board whose memory belongs to its instances
        self.held = held  # the claim that holds it, where that is known
        self.past = past  # its answers, the latest included
        self.departures = departures

    @classmethod
    def of(
        cls,
        snapshots: Sequence[Snapshot],
        uuid: str,
        figures: Callable[[Device], Thresholds],
        departures: EndedProcesses = NOTHING_KNOWN,
    ) -> "View | None":
        """Returns the view of a device; None if it is not in the latest snapshot."""
        latest = snapshots[-1]
        found = next((s for s in latest.devices if s.device.uuid == uuid), None)
        if found is None:
            return None
        past = tuple(_answers(snapshots, uuid))
        track, divided = track_of(past), is_divided(latest, uuid)
        return cls(
            latest, found, figures(found.device), track, track.reasons(latest.at), divided,
            past=past, departures=departures,
        )  # fmt: skip

    @property
    def at(self) -> float:
        return self.snapshot.at

    @property
    def processes(self) -> tuple[Process, ...]:
        return self.status.processes if self.status.answered else ()

    @property
    def knows_processes(self) -> bool:
        return self.status.answered and "processes" not in self.status.missing

    @property
    def compute(self) -> tuple[Process, ...]:
        return tuple(p for p in self.processes if p.kind is ProcessKind.COMPUTE)

    @property
    def graphics(self) -> tuple[Process, ...]:
        return tuple(p for p in self.processes if p.kind is ProcessKind.GRAPHICS)

    @property
    def instances(self) -> tuple[DeviceStatus, ...]:
        uuid = self.device.uuid
        return tuple(s for s in self.snapshot.devices if s.device.parent == uuid)

    @property
    def owns_memory(self) -> bool:
        """Whether it has memory of its own: neither the system's nor divided into instances."""
        return owns_memory(self.device, self.divided)

    @property
    def room_bytes(self) -> int | None:
        """The free memory by the driver; without that value, all that is not used."""
        used, total = self.sample.memory_used_bytes, self.device.memory_total_bytes
        if self.sample.memory_free_bytes is not None:
            return self.sample.memory_free_bytes
        return None if used is None or total is None else max(0, total - used)

    def at_least(self, name: str, least: float) -> bool:
        """Whether a reading is known and at least this."""
        value = getattr(self.sample, name)
        return value is not None and value >= least

    def at_most(self, name: str, most: float) -> bool:
        """Whether a reading is known and at most this."""
        value = getattr(self.sample, name)
        return value is not None and value <= most

    @property
    def busy(self) -> bool:
        return self.at_least("utilization_percent", BUSY_PERCENT)

    @property
    def works(self) -> bool:
        return self.at_least("utilization_percent", BARELY_BUSY_PERCENT + 1)

    @property
    def idle(self) -> bool:
        return self.at_most("utilization_percent", BARELY_BUSY_PERCENT)

    def held_back_by(self, *reasons: str) -> bool:
        """Whether the driver reports one of these throttle reasons."""
        return any(reason in reasons for reason in self.sample.throttle or ())

    # The same as evidence; None if unknown.

    def read(self, name: str) -> Evidence | None:
        """Returns a reading, with its own time."""
        value = getattr(self.sample, name)
        if value is None:
            return None
        if isinstance(value, tuple):
            value = ", ".join(value) or "none"
        return Evidence(name, value, symbol_of(name), self.sample.read_at.get(name, self.sample.at))

    def limit(self, name: str) -> Evidence | None:
        """Returns a limit stated by the device."""
        value = getattr(self.device.limits, name)
        return None if value is None else Evidence(f"limits.{name}", value, symbol_of(name))

    def total(self) -> Evidence | None:
        value = self.device.memory_total_bytes
        return None if value is None else Evidence("memory_total_bytes", value, "bytes")

    def host(self, name: str) -> Evidence | None:
        value = getattr(self.snapshot.host, name)
        return None if value is None else Evidence(f"host.{name}", value, symbol_of(name), self.at)

    def derived(self, name: str, value: float | int | str | None) -> Evidence | None:
        """Returns a number derived from readings; see `measures`."""
        return None if value is None else Evidence(name, value, symbol_of(name), self.at)

    def of_process(self, process: Process, name: str) -> Evidence | None:
        value = getattr(process, name)
        if value is None:
            return None
        return Evidence(f"process.{name}", value, symbol_of(name), self.at)

    # Processes.

    def worker(self) -> Blame | None:
        """Returns who keeps the device busy, if it is: see `blamed`."""
        return blamed(self.processes) if self.works and self.knows_processes else None

    def holder(self, among: Sequence[Process] | None = None) -> Process | None:
        """The process that holds most memory, of all or of these; None if a size is unknown."""
        among = self.processes if among is None else among
        if not among or any(p.memory_bytes is None for p in among):
            return None
        return max(among, key=lambda p: (p.memory_bytes or 0, -p.pid))

    def departed(self) -> list[EndedProcess]:
        """Returns the processes that were on it and are not now; the latest one last."""
        return departed(self.status, self.past, self.departures)

    def naming(self, process: Process) -> Clause:
        """Returns `alice's train.py`, `train.py` or `process 4101`, with the pid as evidence."""
        pid = Evidence("process.pid", process.pid, "", self.at)
        user = self.of_process(process, "user")
        name = self.derived("process.name", program_of(process.command, process.name))
        named = phrase("{user}'s {name}", user=user, name=name) or phrase("{name}", name=name)
        owned = phrase("{user}'s process {pid}", user=user, pid=pid)
        found = named or owned or phrase("process {pid}", pid=pid)
        return Clause(found.text, (*found.evidence, pid))

    def who(self, blame: Process | Blame | None) -> list[Evidence | None]:
        """Returns evidence of who runs a process: owner, container, job, lease, usage and running
        time; of several processes only the owners."""
        if isinstance(blame, Blame) and blame.one is None:
            return [self.derived("processes.blamed", blame.text)]
        process = blame.one if isinstance(blame, Blame) else blame
        if process is None:
            return []
        names = ("container", "job", "lease", "memory_bytes", "utilization_percent")
        found = [self.of_process(process, name) for name in names]
        lasted = self.derived("process.running_seconds", self._running(process))
        return [*self.naming(process).evidence, *found, lasted]

    def _running(self, process: Process) -> float | None:
        started = process.started
        if started is None or started > self.at or process not in self.processes:
            return None
        return self.at - started


def part_of_whole(view: View, name: str, whole: Evidence | None) -> Clause:
    """`138 GiB of 140 GiB`, or only the part."""
    part = view.read(name)
    return phrase("{part} of {whole}", part=part, whole=whole) or phrase("{part}", part=part)


def after_colon(*clauses: Clause) -> Clause:
    """Returns `: a, b, c`, or nothing."""
    found = listed(clauses, last=", ")
    return Clause(": ") + found if found else found


def _answers(snapshots: Sequence[Snapshot], uuid: str) -> Iterator[DeviceStatus]:
    """Yields each answer once, in chronological order."""
    latest = float("-inf")
    for snapshot in snapshots:
        for status in snapshot.devices:
            sample = status.sample if status.answered else None
            if status.device.uuid == uuid and sample is not None and sample.at > latest:
                latest = sample.at
                yield status


def track_of(past: Sequence[DeviceStatus]) -> Track:
    """Returns the track of past answers, as a server would have kept it."""
    track, before = None, None
    for status in past:
        at = status.sample.at if status.sample is not None else 0.0
        track, before = updated_track(track, status, at, before), at
    return Track(0.0) if track is None else track


def is_divided(snapshot: Snapshot, uuid: str) -> bool:
    """Whether a board's memory belongs to its instances."""
    return any(one.device.parent == uuid for one in snapshot.devices)
