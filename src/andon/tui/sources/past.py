"""The readings from before top started: what a server remembers, or the history on disk."""

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.errors import AndonError
from andon.host.state.user_folder import HISTORY, node_path
from andon.model.device import Snapshot
from andon.tui.histories import METRICS, Point
from andon.tui.sources.feed import Feed

if TYPE_CHECKING:
    from andon.node.port import Node, NodePast

POINTS = 240
FIRST_SECONDS = 10.0  # a history is read beside what is shown meanwhile
PastPoints = dict[tuple[str, str], list[Point]]


class PastReader:
    """Reads the past of one device after another, beginning with the one that is shown."""

    def __init__(self, node: "Node") -> None:
        self._node, self._has_past = node, not node.simulated and not node.recording
        self._read: set[tuple[str, float]] = set()

    def next(
        self, uuids: Sequence[str], first: str | None, span_seconds: float, until: float
    ) -> PastPoints:
        """Returns the past of the next device that has none yet; empty if all are read."""
        wanted = [uuid for uuid in (first, *uuids) if uuid is not None and uuid in uuids]
        left = [uuid for uuid in wanted if (uuid, span_seconds) not in self._read]
        if not left or not self._is_open():
            return {}
        self._read.add((left[0], span_seconds))
        return self._points(left[0], until - span_seconds, until)

    def forget(self) -> None:
        """Makes everything be read again, because another span is shown."""
        self._read.clear()

    def _is_open(self) -> bool:
        try:
            return self._has_past and self._node.past.recorded
        except AndonError:
            self._has_past = False
            return False

    def _points(self, uuid: str, since: float, until: float) -> PastPoints:
        past = self._node.past
        return {(uuid, metric): points_of(past, uuid, metric, since, until) for metric in METRICS}


def points_of(past: "NodePast", uuid: str, metric: str, since: float, until: float) -> list[Point]:
    try:
        buckets = past.history(uuid, metric, since, until, POINTS)
    except AndonError:
        return []
    return [Point((one.since + one.until) / 2, one.mean, one.until - one.since) for one in buckets]


class HistoryOnDisk:
    """Reads the history on disk for the first picture, in a thread, because a disk may hang. If
    nothing has been recorded, not even a module is imported."""

    def __init__(self, node: "Node", store: str, feed: Feed, span_seconds: float) -> None:
        """`store` is the setting of the history."""
        self._node, self._feed, self._span = node, feed, span_seconds
        self._found: PastPoints = {}
        self._done = threading.Event()
        if self._is_recorded(store):
            threading.Thread(target=self._run, name="early past", daemon=True).start()
        else:
            self._done.set()

    def points(self, seconds: float) -> PastPoints:
        """Returns all that was read in this time; PastReader reads the rest later."""
        self._done.wait(seconds)
        return dict(self._found)

    def _is_recorded(self, store: str) -> bool:
        """Whether this user has a history on this machine; a server's memory is read elsewhere."""
        if self._feed.is_server or self._node.simulated or self._node.recording:
            return False
        return bool(store) or os.access(node_path() / HISTORY, os.F_OK)

    def _run(self) -> None:
        try:
            past, first = self._node.past, self._feed.first(FIRST_SECONDS)
            if past.recorded and first is not None and first.snapshot is not None:
                self._read(past, first.snapshot)
        except (AndonError, OSError):
            pass  # a history that cannot be read is reported by its own commands
        finally:
            self._done.set()

    def _read(self, past: "NodePast", snapshot: Snapshot) -> None:
        """Reads the graphs of the first device, then the trends of all."""
        uuids, since = [s.device.uuid for s in snapshot.devices], snapshot.at - self._span
        wanted = [(uuid, metric) for uuid in uuids[:1] for metric in METRICS]
        wanted += [(uuid, METRICS[0]) for uuid in uuids[1:]]
        for uuid, metric in wanted:
            self._found[uuid, metric] = points_of(past, uuid, metric, since, snapshot.at)
