"""What all nodes of a hub have, as one caller may see it: read from each report once, and kept
until a later one is read."""

import threading
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from andon.access.roles import OF_A_HUB, Identity, sight_of
from andon.alerts.rules.past import Query
from andon.errors import AndonError
from andon.fleet.rules.items import FleetItem, FleetItems, Wanted, items_of, page_of
from andon.fleet.rules.states import NodeRow
from andon.model.alert import Phase
from andon.node.seen.node import SeenNode
from andon.node.served import ServedNode
from andon.web.fleet.failures import NodeFailures
from andon.web.fleet.hub import Hub

FRESH_SECONDS = 14.0
"""For how long what was read of a node serves all callers."""
LATEST_ENDED = Query(state=Phase.RESOLVED, limit=20)
"""Of one node; its own page has all of them."""
READ_SECONDS = 2.0
"""How long reports are read for one request; those that wait longest come first."""


class _Known(Struct, frozen=True):
    """What a report had; when it was read, and whether its node was heard then."""

    read_at: float
    heard: bool
    items: tuple[FleetItem, ...]


class ItemReader:
    """Keeps what was read by node, once for callers who see command lines and names, and once for
    the others."""

    def __init__(self, hub: Hub, read: Callable[[str], ServedNode]) -> None:
        """`read` opens a node by its last report."""
        self._hub, self._read = hub, read
        self._lock, self._failures = threading.Lock(), NodeFailures()
        self._known: dict[bool, dict[str, _Known]] = {True: {}, False: {}}

    def page(self, own: SeenNode, who: Identity, wanted: Wanted) -> FleetItems:
        """Returns the lines of all nodes, the hub's own machine among them; the call blocks."""
        rows = {row.name: row for row in self._hub.rows() if row.name != self._hub.own}
        if not wanted.limit:
            return page_of((), wanted, time.time(), rows.values(), ())
        everything = who.role in OF_A_HUB and sight_of(who).everything
        with self._lock:
            known = self._known[everything]
            for name in known.keys() - rows.keys():
                del known[name]
            asked = {name: row for name, row in rows.items() if wanted.node in ("", name)}
            self._read_new(known, asked, who)
            items = [item for name in asked if name in known for item in known[name].items]
        reporting = (name for name, row in asked.items() if row.age_seconds is not None)
        unread = tuple(name for name in reporting if name not in known)
        return page_of([*items, *_items(own)], wanted, time.time(), asked.values(), unread)

    def _read_new(
        self, known: dict[str, _Known], rows: Mapping[str, NodeRow], who: Identity
    ) -> None:
        """Reads the nodes whose lines are old, or that are silent or heard again since."""
        now, old = time.monotonic(), _Known(float("-inf"), False, ())
        due = [
            name for name, row in rows.items()
            if (row.heard and now - known.get(name, old).read_at > FRESH_SECONDS)
            or (row.age_seconds is not None and known.get(name, old).heard != row.heard)
            or name not in known
        ]  # fmt: skip
        for name in sorted(due, key=lambda one: known.get(one, old).read_at):
            if time.monotonic() - now > READ_SECONDS:
                return
            items: tuple[FleetItem, ...] = ()
            with self._failures.of(name, "what it has is not in the lists of all nodes"):
                items = _items(SeenNode(self._read(name), who))
            known[name] = _Known(time.monotonic(), rows[name].heard, items)


def _items(node: SeenNode) -> tuple[FleetItem, ...]:
    """Returns what a node has; leases and jobs that cannot be read now are left out."""
    leases = node.leases.listed() if node.leases.supported else None
    try:
        jobs = node.jobs.listed()[0].views if node.features["jobs"] else ()
    except AndonError:
        jobs = ()
    alerts = node.alerts
    ended = alerts.page(wanted=LATEST_ENDED).alerts
    return items_of(node.live.latest(), alerts.current(), alerts.silences(), leases, jobs, ended)
