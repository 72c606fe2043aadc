"""The utilisation of runs in a few points each, for the sparklines of the list."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from andon.access.roles import Sight
from andon.errors import AndonError
from andon.model.run.record import RunState
from andon.node.run_schemas import RunColumns, RunCourses, RunDetails

POINTS = 48
MOST_RUNS = 100
MOST_CACHED = 2000
BUDGET_SECONDS = 0.4
READING = "utilization_percent"

Course = list[float | None]


class CourseReader:
    """Reads the courses of runs, and caches those of runs that have ended. Thread-safe."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._cache: dict[tuple[Sight, str], Course] = {}
        self._lock = threading.Lock()

    def of(
        self, sight: Sight, names: Sequence[str], details: Callable[[str], RunDetails]
    ) -> RunCourses:
        """Returns the courses that could be read in time, and how many runs are left for another
        request; a run that is gone or not the caller's has none."""
        until, found = self._monotonic() + BUDGET_SECONDS, dict[str, Course]()
        names = names[:MOST_RUNS]
        for place, name in enumerate(names):
            if place and self._monotonic() >= until:
                return RunCourses(found, len(names) - place)
            with suppress(AndonError):
                found[name] = self._one(sight, name, details)
        return RunCourses(found, 0)

    def _one(self, sight: Sight, name: str, read: Callable[[str], RunDetails]) -> Course:
        with self._lock:
            cached = self._cache.get((sight, name))
        if cached is not None:
            return cached
        details = read(name)
        course = course_of(details.series)
        if details.state is not RunState.RUNNING and details.read.bytes >= details.read.of_bytes:
            with self._lock:
                self._cache[sight, name] = course
                while len(self._cache) > MOST_CACHED:
                    del self._cache[next(iter(self._cache))]
        return course


def course_of(series: RunColumns, points: int = POINTS) -> Course:
    """Returns the mean over the devices in equal time spans; None where nothing was read."""
    lines = [named[READING] for named in series.devices.values() if READING in named]
    if not lines:
        return []
    points = min(points, len(series.at))
    last = series.at[-1] * (1 + 1e-9) or 1.0
    spans: list[list[float]] = [[] for _ in range(points)]
    for place, at in enumerate(series.at):
        read = [value for line in lines if (value := line[place]) is not None]
        spans[min(points - 1, int(at / last * points))] += read
    return [round(sum(span) / len(span), 1) if span else None for span in spans]
