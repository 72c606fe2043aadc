"""A hub's nodes with what is stored of each: readings, alerts, runs and tokens."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from andon.errors import Invalid, Unavailable
from andon.exporter.spreads import FleetReadings
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.rules.past import of_hub, unpacked_past
from andon.model.device import MOST_DEVICES
from andon.ports import NodePasts, Store
from andon.runs.rules.matching import RunQuery
from andon.web.fleet.courses import DayReader
from andon.web.fleet.hub import Hub, no_node
from andon.web.fleet.items import ItemReader
from andon.web.fleet.reported import ReportedNode
from andon.web.fleet.tokens import NamedTokens

MOST_CACHED = 32
"""The most recently requested nodes, cached as they were read."""
MOST_RUNS = 5000
"""Of one node; the oldest are forgotten. Their records are on the node."""


class Fleet:
    """The nodes of a hub, and what it stores about them."""

    def __init__(self, hub: Hub, open_pasts: Callable[[], NodePasts], prefix: str) -> None:
        """`prefix` is that of the hub's metrics."""
        self.hub, self._open, self._prefix = hub, open_pasts, prefix
        self.metrics: Callable[[], FleetReadings | None] = lambda: None
        """What the hub's metrics have of the nodes."""
        self._pasts: NodePasts | None = None
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._cache: dict[tuple[str, float], ReportedNode] = {}
        """By name and when it was added: another hub may have ended an earlier one."""
        self.tokens = NamedTokens(lambda: self.pasts)
        self.items = ItemReader(hub, self.read)
        self.courses = DayReader(lambda: self.pasts)

    @property
    def pasts(self) -> NodePasts:
        """What is kept beside the heartbeats; opened when it is first used."""
        with self._opening:
            if self._pasts is None:
                self._pasts = self._open()
            return self._pasts

    def node(self, name: str) -> ReportedNode:
        """Returns a node by its last report; those requested last are cached. The call may
        block."""
        key = name, self.hub.node(name).added
        with self._lock:
            known = self._cache.pop(key, None)
            found = self._cache[key] = known or self._made(name)
            while len(self._cache) > MOST_CACHED:
                self._cache.pop(next(iter(self._cache)))
        found.refresh()
        return found

    def read(self, name: str) -> ReportedNode:
        """Returns a node by its last report, which is not cached."""
        node = self._made(name)
        node.refresh()
        return node

    def fold(self, name: str, store: Store) -> None:
        """Writes what came with the heartbeats of a node to its history."""
        with suppress(Unavailable):  # what it sent is not kept any more
            self.read(name).fold(store)

    def take_past(self, node: FleetNode, body: bytes) -> None:
        """Stores a part of a node's past; the call blocks."""
        part = unpacked_past(body, time.time())
        store = self.pasts.history(node.name)
        known = {one.uuid for one in (*store.devices(), *part.devices)}
        if len(known) > MOST_DEVICES:
            raise Invalid(f"a node has at most {MOST_DEVICES} devices")
        if part.blocks:
            store.load(part.devices, part.blocks)
        if part.uses:
            store.write((), part.uses, part.devices)
        if part.alerts:
            self.pasts.alerts(node.name).save({}, part.alerts, ())
        if part.runs:
            index = self.pasts.runs(node.name)
            index.put([of_hub(row, node.name) for row in part.runs])
            index.drop([row.id for row in index.find(RunQuery(offset=MOST_RUNS))])

    def remove(self, name: str, with_history: bool) -> None:
        """Removes a node, on request with its history; also the history of one that was removed
        before."""
        self.hub.check(name)
        found = self.hub.remove(name)
        if with_history:
            found = self.pasts.clear(name) or found
        if not found:
            raise no_node(name)

    def close(self) -> None:
        if self._pasts is not None:
            self._pasts.close()
        self.hub.close()

    def _made(self, name: str) -> ReportedNode:
        return ReportedNode(self.hub, self.pasts, name, self._prefix)
