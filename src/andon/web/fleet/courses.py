"""How a reading of many nodes went in the last day: one line for each node, over its devices."""

import threading
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from andon.ports import NodePasts

DAY_SECONDS, POINTS = 86_400, 48
EVERY_SECONDS = 600
"""How often what was read is read again: a node sends its past in blocks of this length."""
MOST_NODES = 100
"""In one request."""


class NodeCourses(Struct, frozen=True):
    """The means of each span of time; null where nothing was recorded."""

    metric: str
    since: float
    until: float
    nodes: dict[str, list[float | None]]


class DayReader:
    """What was read of a node serves all callers until its next block may be there."""

    def __init__(self, pasts: Callable[[], NodePasts]) -> None:
        self._pasts, self._lock = pasts, threading.Lock()
        self._until, self._known = 0, dict[tuple[str, str], list[float | None]]()

    def courses(self, nodes: Sequence[str], metric: str) -> NodeCourses:
        """Returns the last day, in half hours; the call blocks."""
        until = int(time.time() // EVERY_SECONDS * EVERY_SECONDS)
        since = until - DAY_SECONDS
        with self._lock:
            if until != self._until:
                self._until, self._known = until, {}
            missing = [one for one in nodes if (one, metric) not in self._known]
            if missing:
                found = self._pasts().courses(missing, metric, since, until, POINTS)
                for one in missing:
                    means = [bucket.mean for bucket in found.get(one, ())]
                    self._known[one, metric] = [None if v is None else round(v, 1) for v in means]
            lines = {one: self._known[one, metric] for one in nodes}
        return NodeCourses(metric, since, until, lines)
