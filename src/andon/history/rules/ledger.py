"""What was used of each device between two readings: snapshots in, points of three series out.

A point holds what was used since the one before it, while a process was on the device: a sum over
points is the same in every tier and in buckets of any width.
"""

from msgspec import Struct

from andon.history.rules.intervals import JOIN_SECONDS
from andon.history.rules.series import LONGEST_SPAN_SECONDS, USED, NodeReadings, stored_value
from andon.model.device import Process, Sample, Snapshot, pids_of
from andon.model.run.energy import EnergyMeter
from andon.model.utilisation import ZERO_READING

LEAST_SPAN_SECONDS = 30.0  # between two points of one whose counter is read at every tick
LEAST_WATTS = 10.0  # a smaller change of power does not show when a process came or left
SLACK = 0.25  # of the time between two readings: power is not exactly steady
LEAST_SECONDS = 0.04  # a process that was seen stayed for a moment; two points differ in time


def changed_at(
    span: tuple[float, float], watts: tuple[float | None, float | None], joules: float | None
) -> float:
    """Returns when power changed from the first reading to the second, as the rise of the energy
    counter tells; the middle if one change cannot explain it."""
    (since, until), (before, after) = span, watts
    share, gap = 0.5, until - since
    if before is None or after is None or joules is None:
        pass
    elif abs(after - before) >= LEAST_WATTS:
        found = (after - joules / gap) / (after - before)
        share = found if -SLACK <= found <= 1 + SLACK else share
    return min(max(since + share * gap, since + LEAST_SECONDS), until)


class DeviceLedger(Struct):
    """Sums the use of one device. A reading counts until the next; the counter corrects power."""

    device: str
    meter: EnergyMeter
    at: float
    read: float | None = None  # when the counter was, by the clock of that time
    watts: float | None = None
    idle: bool | None = None
    processes: tuple[Process, ...] = ()
    mark: float = 0.0  # joules up to the last point
    marked_at: float = 0.0
    known_seconds: float = 0.0  # since the last point
    idle_seconds: float = 0.0

    def step(
        self, at: float, sample: Sample, processes: tuple[Process, ...]
    ) -> tuple[list[NodeReadings], float | None]:
        """Returns points, and when processes came or left, if any did."""
        last, watts, in_use = self.at, self.watts, bool(self.processes)
        same = processes is self.processes or pids_of(processes) == pids_of(self.processes)
        before, was_idle, points, change = self._total(last), self.idle, [], None
        counted = self._read(at, sample)
        if not same:
            joules = self._total(at) - before if counted else None
            change = changed_at((last, at), (watts, self.watts), joules)
            if not in_use:
                started = min((p.started or 0.0 for p in processes), default=0.0)
                change = min(max(change, started), at)
                self.mark = min(before + (watts or 0.0) * (change - last), self._total(at))
                self.marked_at = change
        if in_use:
            end, since = change or at, at - self.marked_at
            self._hold(was_idle, end - last)
            is_long = since + at - last > LONGEST_SPAN_SECONDS
            if change is not None or is_long or (counted and since >= LEAST_SPAN_SECONDS):
                points = self._point((last + end) / 2, end)
        if processes and change is not None:
            self._hold(self.idle, at - change)
        self.processes = processes
        return points, change

    def close(self) -> list[NodeReadings]:
        """Returns the last point, up to the last reading."""
        return self._point(self.at - LEAST_SECONDS, self.at) if self.processes else []

    def _read(self, at: float, sample: Sample) -> bool:
        """Adds a sample to the meter; returns whether the counter was read since the last one."""
        counter, read_at = sample.energy_joules, sample.read_at.get("energy_joules", at)
        counted = counter is not None and read_at != self.read and self.at < read_at <= at
        if counted and read_at < at:
            self.meter.add(read_at, sample.power_watts, counter)
        self.meter.add(at, sample.power_watts, counter if counted and read_at == at else None)
        busy = sample.utilization_percent
        self.at, self.read, self.watts = at, read_at, sample.power_watts
        self.idle = None if busy is None else busy == ZERO_READING
        return counted

    def _hold(self, idle: bool | None, seconds: float) -> None:
        if idle is not None:
            self.known_seconds += seconds
            self.idle_seconds += seconds * idle

    def _total(self, at: float) -> float:
        return (self.meter.until(at) or (0.0, ""))[0]

    def _point(self, at: float, end: float) -> list[NodeReadings]:
        found = self.meter.until(end)
        values = (
            None if found is None else max(0.0, found[0] - self.mark),
            self.known_seconds or None,
            self.idle_seconds if self.known_seconds else None,
        )
        known = [
            (m, v)
            for m, one in zip(USED, values, strict=True)
            if (v := stored_value(m, one)) is not None
        ]
        # What power overestimated, as over a step of the clock, is missing from the next points.
        self.mark, self.marked_at = max(self.mark, self._total(end)), end
        self.known_seconds = self.idle_seconds = 0.0
        reading = self.device, tuple(m for m, _ in known), tuple(v for _, v in known)
        return [NodeReadings(at, (reading,))] if known else []


class UseLedger:
    """Sums the use of all devices of a node."""

    def __init__(self) -> None:
        self._devices: dict[str, DeviceLedger] = {}

    def take(self, snapshot: Snapshot) -> tuple[list[NodeReadings], dict[str, float]]:
        """Returns points, and by device when processes came or left since the last snapshot."""
        points, changes = list[NodeReadings](), dict[str, float]()
        for status in snapshot.devices:
            sample, uuid = status.sample, status.device.uuid
            if sample is None or not status.answered:
                continue
            known = self._devices.get(uuid)
            if known is None or not 0.0 < snapshot.at - known.at <= JOIN_SECONDS:
                points += [] if known is None else known.close()
                read = None if known is None else known.read
                self._devices[uuid] = _opened(uuid, snapshot.at, sample, status.processes, read)
                continue
            made, change = known.step(snapshot.at, sample, status.processes)
            points += made
            if change is not None:
                changes[uuid] = change
        return points, changes

    def close(self) -> list[NodeReadings]:
        """Returns the last points, and closes the ledgers."""
        found = [point for one in self._devices.values() for point in one.close()]
        self._devices.clear()
        return found


def _opened(
    uuid: str, at: float, sample: Sample, processes: tuple[Process, ...], read: float | None
) -> DeviceLedger:
    """Returns a ledger that begins where the counter was last read, so that its next reading gives
    a difference. A reading at `read` has been counted already, before the clock was set."""
    read_at = sample.read_at.get("energy_joules", at)
    began = read_at if 0.0 <= at - read_at <= JOIN_SECONDS and read_at != read else at
    made = DeviceLedger(uuid, EnergyMeter(began, JOIN_SECONDS), began - LEAST_SECONDS, read)
    made._read(at, sample)
    made.processes, made.mark, made.marked_at = processes, made._total(at), at
    return made
