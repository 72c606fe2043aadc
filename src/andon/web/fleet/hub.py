"""A hub's nodes: which may report, what each reported last, and when."""

import hashlib
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Gone, Invalid
from andon.fleet.rules.digest import Digest, decoded
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.fleet.rules.states import ALERT_SECONDS, NodeRow, clock_trouble, row_of
from andon.host.clock import clocks
from andon.model.check import CheckFigures
from andon.ports import NodeStore
from andon.version import __version__

FRESH_SECONDS = 1.0
"""Requests within this time share one reading of the database; other hubs write to it, too."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class _Heard(Struct):
    """The machine that reports under a node's name, and when another one last did."""

    machine: str
    at: float
    other: float = float("-inf")
    """When another machine last reported under it; on the monotonic clock, as `at`."""


class Hub:
    """Calls may come from any thread; those that read the database block."""

    def __init__(
        self,
        open_store: Callable[[], NodeStore],
        notifies: bool = False,
        pin: str | None = None,
        own: str = "",
        clock: Callable[[], tuple[float, float]] = clocks,
    ) -> None:
        """The store is opened when it is first used, and tried again while it is away. `notifies`
        if it has notifiers: nodes then leave their notices to it. `pin` is the fingerprint of its
        certificate, if nodes cannot know it otherwise; `own` is the name of its machine."""
        self._open, self.notifies, self.pin, self.own = open_store, notifies, pin, own
        self._store: NodeStore | None = None
        self._clock = clock
        self._opening = threading.Lock()
        self.refused: Counter[str] = Counter()
        """How many requests of nodes were refused, by kind."""
        self._lock = threading.Lock()
        self.read_at, self._nodes = float("-inf"), dict[str, FleetNode]()
        self._by_token: dict[str, FleetNode] = {}
        self._digests: dict[str, tuple[bytes, Digest | None]] = {}
        self._heard: dict[str, _Heard] = {}
        self._last: dict[str, tuple[float, float]] = {}
        """A node's last heartbeat: when it came by the clock of its hub, and by our steady one."""
        self.trouble: AndonError | None = None
        """Why heartbeats cannot be stored."""
        self.failed_at = float("-inf")
        """When that last was so, on the monotonic clock: which nodes are silent is not known."""

    @property
    def store(self) -> NodeStore:
        with self._opening:
            if self._store is None:
                self._store = self._open()
            return self._store

    def nodes(self, fresh_seconds: float = FRESH_SECONDS) -> dict[str, FleetNode]:
        """Returns all nodes by name."""
        with self._lock:
            if time.monotonic() - self.read_at > fresh_seconds:
                self._nodes = {node.name: node for node in self.store.nodes()}
                self._by_token = {node.token_hash: node for node in self._nodes.values()}
                self.read_at = time.monotonic()
            return self._nodes

    def node(self, name: str) -> FleetNode:
        found = self.nodes().get(name)
        if found is None:
            raise no_node(name)
        return found

    def reporter(self, token: str) -> FleetNode | None:
        """Returns the node with this token, by the last reading of the database; None if none has
        it."""
        return self._by_token.get(_hashed(token))

    def count(self) -> int:
        """Returns how many nodes there were when they were last read: never blocks."""
        return len(self._nodes)

    def rows(self) -> list[NodeRow]:
        return [self._row(node) for node in self.nodes().values()]

    def known(self) -> list[tuple[FleetNode, NodeRow]]:
        """Returns the nodes as they were last read: never blocks. While reports cannot be stored it
        is not known which are silent: those that seem so are left out."""
        now, found = time.monotonic(), [(one, self._row(one)) for one in list(self._nodes.values())]
        blind = now - self.failed_at < ALERT_SECONDS or now - self.read_at > ALERT_SECONDS
        return [one for one in found if not (blind and one[1].silent_seconds)]

    def row(self, name: str) -> NodeRow:
        """Returns a node's row by what was last read: never blocks."""
        found = self._nodes.get(name)
        if found is None:
            raise no_node(name)
        return self._row(found)

    def checks(self, model: str) -> list[CheckFigures]:
        """Returns the last checks of all nodes' cards of a model."""
        digests = (self._digest(node) for node in self.nodes().values())
        return [c for one in digests if one for c in one.checks if c.model == model]

    def hear(self, beat: Heartbeat, digest: Digest) -> None:
        """Takes over a stored heartbeat, so that lists show it at once."""
        now = time.monotonic()
        self._last[beat.node] = beat.at, self._clock()[1]
        self._digests[beat.node] = beat.digest, digest
        node = self._nodes.get(beat.node)
        if node is not None:
            self._nodes[beat.node] = replace(
                node, heard=beat.at, sent=beat.sent, digest=beat.digest
            )
        known = self._heard.setdefault(beat.node, _Heard(digest.machine, now))
        if known.machine == digest.machine:
            known.at = now
        elif now - known.at < ALERT_SECONDS:
            known.other = now
        else:
            self._heard[beat.node] = _Heard(digest.machine, now)

    def add(self, name: str) -> str:
        """Adds a node; returns its token, of which only a hash is kept."""
        self.check(name)
        if name in self.nodes(0.0):
            raise Conflict(
                f"there is a node {name} already",
                hint=f"its token ends with: andon nodes remove {name}",
            )
        token = secrets.token_urlsafe(32)
        self._put(FleetNode(name, _hashed(token), time.time()))
        return token

    def check(self, name: str) -> None:
        """Raises Invalid for a malformed name, and for that of a hub's machine, whose history it
        would share."""
        if not NAME.fullmatch(name):
            raise Invalid(
                f"{name[:60]!r} cannot be a node's name", hint="letters, digits, - . and _"
            )
        known = self._nodes.get(name)
        if name == self.own or (known is not None and known.is_hub):
            raise Invalid(f"{name} is a hub's own machine", hint="it samples itself, without agent")

    def drain(self, name: str, drained: bool) -> None:
        self.nodes(0.0)
        self._put(replace(self.node(name), drained=drained))

    def remove(self, name: str) -> bool:
        """Removes a node, and with it its token; its history stays. Returns whether there was
        one."""
        found = self.store.remove(name)
        self._heard.pop(name, None)
        self._last.pop(name, None)
        self.nodes(0.0)
        return found

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def keep(self, node: FleetNode) -> None:
        """Adds a node unless it is known."""
        if node.name not in self.nodes():
            self._put(node)

    def _put(self, node: FleetNode) -> None:
        self.store.put(node)
        self.nodes(0.0)

    def _row(self, node: FleetNode) -> NodeRow:
        return row_of(node, self._digest(node), self._age(node), self._trouble(node), __version__)

    def _age(self, node: FleetNode) -> float | None:
        """Returns the seconds since this hub first saw a node's last heartbeat, by its steady
        clock. Wall clocks may be set and differ between hubs: they count only for what came before
        its start."""
        if node.heard is None:
            return None
        (wall, now), known = self._clock(), self._last.get(node.name)
        if known is None or known[0] != node.heard:
            before = max(0.0, wall - node.heard) if known is None else 0.0
            known = self._last[node.name] = node.heard, now - before
        return now - known[1]

    def _trouble(self, node: FleetNode) -> str | None:
        """Returns a problem that only a hub can notice: two machines under one name, or a wrong
        clock."""
        heard = self._heard.get(node.name)
        if heard is not None and time.monotonic() - heard.other < ALERT_SECONDS:
            return "two machines report under this name"
        if node.heard is None or node.sent is None:
            return None
        return clock_trouble(node.heard, node.sent)

    def _digest(self, node: FleetNode) -> Digest | None:
        if not node.digest:
            return None
        known = self._digests.get(node.name)
        if known is None or known[0] != node.digest:
            try:
                known = node.digest, decoded(node.digest)
            except Invalid:  # of a hub of another version
                known = node.digest, None
            self._digests[node.name] = known
        return known[1]


def no_node(name: str) -> Gone:
    return Gone(f"this hub has no node {name[:60]!r}", hint="list them: andon nodes")


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
