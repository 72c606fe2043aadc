"""Detects steady memory growth and its process, ignoring programs that are starting."""

from msgspec import Struct

from andon.explain.evidence.forecast import FOR_EXPLANATIONS, Point, trend
from andon.explain.evidence.view import View
from andon.model.device import DeviceStatus, Process
from andon.units import MIB

LONGEST_SECONDS = 3600.0
POINTS = 48
LEAST_BYTES = 128 * MIB
LEAST_SHARE = 0.005  # of the device's memory


class Growth(Struct, frozen=True):
    """A steady rise of the memory in use."""

    rise_bytes: int
    seconds: float
    bytes_per_second: float
    full_in_seconds: float | None
    process: Process | None  # the process that grew most, if sizes are known


def growth(view: View) -> Growth | None:
    """The growth, if there is any: long enough, steady, and not a program that is starting."""
    points, answers = _points(view)
    least = max(LEAST_BYTES, LEAST_SHARE * (view.device.memory_total_bytes or 0))
    found = trend(points, least, FOR_EXPLANATIONS)
    if found is None or _starting(answers):
        return None
    room, rise = view.room_bytes, round(found.rise)
    left = None if room is None else room / found.slope
    return Growth(rise, found.seconds, found.slope, left, _grown(answers, rise))


def grower(view: View) -> Process | None:
    """Returns the process whose memory grows, if there is one."""
    found = growth(view)
    return None if found is None else found.process


def _points(view: View) -> tuple[list[Point], list[DeviceStatus]]:
    """Time and memory, thinned out; empty if the device does not answer now."""
    found = [
        (status, (sample.at, sample.memory_used_bytes))
        for status in view.past
        if (sample := status.sample) is not None and sample.memory_used_bytes is not None
    ]
    if not found or not view.status.answered or view.sample.memory_used_bytes is None:
        return [], []
    end = found[-1][1][0]
    recent = [(s, p) for s, p in found if end - p[0] <= LONGEST_SECONDS]
    step = max(1, -(-len(recent) // POINTS))
    thin = recent[::-step][::-1]  # from the end, so that the latest stays
    return [point for _, point in thin], [status for status, _ in thin]


def _starting(answers: list[DeviceStatus]) -> bool:
    """Whether a process started in this time or shortly before: loading is not leaking."""
    first, last = answers[0], answers[-1]
    present = {(p.pid, p.started) for p in first.processes}
    began = first.sample.at if first.sample else 0.0
    return any(
        (p.pid, p.started) not in present
        or (p.started is not None and p.started > began - FOR_EXPLANATIONS.least_seconds)
        for p in last.processes
    )


def _grown(answers: list[DeviceStatus], rise: int) -> Process | None:
    """Returns the process that took at least half of the rise."""
    before = {(p.pid, p.started): p.memory_bytes for p in answers[0].processes}
    grown = [
        (process.memory_bytes - was, -process.pid, process)
        for process in answers[-1].processes
        if process.memory_bytes is not None
        and (was := before.get((process.pid, process.started))) is not None
    ]
    most = max(grown, key=lambda one: one[:2], default=None)
    return most[2] if most and most[0] >= rise / 2 else None
