"""What one of several hubs does for all nodes: detects silent ones, sends their notices to
people, packs and deletes old readings."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from andon.errors import AndonError, Unavailable
from andon.explain.evidence.observation import OwnTrouble
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.fleet.rules.states import ALERT_SECONDS, NodeRow, NodeState, version_trouble
from andon.history.writer import Maintainer
from andon.model.wire import Json
from andon.ports import Store
from andon.units import human_seconds
from andon.version import __version__
from andon.web.fleet.failures import NodeFailures
from andon.web.fleet.fleet_alerts import FleetAlerts
from andon.web.fleet.nodes import Fleet

log = logging.getLogger("andon.hub")

CHECK_SECONDS = 5.0
LEAVING_SECONDS = 2.0
RELAY_SECONDS, LATE_SECONDS = 2.0, 30.0
MOST_NEWS = 50
"""Reports with notices of one node that wait for the hub that leads."""
GRACE_SECONDS = 60.0
"""After a start, and after the database was away or full: nodes wait up to half of it before they
try again."""
TEXTS = RetryTexts(
    lambda reason: f"the hub does not watch its nodes: {reason}",
    lambda away: f"the hub watches its nodes again after {away}",
)


class LeaderDuties:
    """Runs the duties in a thread; the database decides which hub leads, and only that one acts."""

    def __init__(
        self, fleet: Fleet, alerts: FleetAlerts, maintainer: Callable[[Store], Maintainer]
    ) -> None:
        self._fleet, self._alerts, self._maintainer = fleet, alerts, maintainer
        self.leads = False
        self._blind_at = time.monotonic()
        self._upkeep_queue: Iterator[str] = iter(())
        self._of_nodes = NodeFailures()
        self._over = threading.Event()
        self._failures = FailureLog("andon.hub", "keeping the nodes failed; it goes on")
        self._retrying = Retrying(log.warning, TEXTS, self._translated)
        self._thread = threading.Thread(target=self._run, name="andon hub leader", daemon=True)
        self._thread.start()

    def health(self) -> Json:
        is_full = time.monotonic() - self._fleet.hub.failed_at < GRACE_SECONDS
        trouble = self._retrying.trouble or (self._fleet.hub.trouble if is_full else None)
        name, since = self._alerts.waiting or ("", time.monotonic())
        waits = time.monotonic() - since
        if trouble is None and waits > LATE_SECONDS:
            reason = f"a notice of {name} has waited for {human_seconds(waits)}"
            trouble = Unavailable(reason, hint="the log says why")
        return {
            "state": "ok" if trouble is None else "failing",
            "reason": None if trouble is None else trouble.reason,
            "hint": None if trouble is None else trouble.hint or None,
            "notice_waits_seconds": round(waits, 1) if name else None,
            "leads": self.leads,
            "nodes": self._fleet.hub.count() if trouble is None else None,
            "refused": sum(self._fleet.hub.refused.values()),
        }

    def close(self) -> None:
        self._over.set()
        self._thread.join(LEAVING_SECONDS)

    def _run(self) -> None:
        while not self._over.wait(CHECK_SECONDS):
            if self._retrying.attempt(self._check) is None:
                self._retrying.succeeded()
            else:
                self.leads, self._blind_at = False, time.monotonic()  # whoever reaches it leads
                self._alerts.lead(False)

    def _check(self) -> None:
        self.leads = self._fleet.pasts.leads()
        self._alerts.lead(self.leads)
        self._fleet.tokens.refresh()
        rows = self._fleet.hub.rows()
        if self.leads:
            self._relay()
        now = time.monotonic()
        if self.leads and now - self._blind_at >= GRACE_SECONDS:
            is_known = now - self._fleet.hub.failed_at >= GRACE_SECONDS
            self._alerts.judge(found_in(rows, __version__) if is_known else None)
            nodes = self._fleet.hub.nodes()  # one may have been removed since
            pending = [row for row in rows if row.name in nodes and not nodes[row.name].is_hub]
            self._keep_one({row.name: row for row in pending})

    def _relay(self) -> None:
        """Sends the notices of nodes to people, one report of each node in turn; of a node with too
        many reports only the latest are sent."""
        until = time.monotonic() + RELAY_SECONDS
        for name, count in Counter(self._fleet.pasts.thin_news(MOST_NEWS)).items():
            self._fleet.hub.refused["notices"] += count
            log.warning("%s: %d reports with notices are left out for later ones", name, count)
        while self._alerts.relay() and time.monotonic() < until:
            pass

    def _keep_one(self, rows: Mapping[str, NodeRow]) -> None:
        """Does some of the upkeep of one node, of another each time."""
        name = next((one for one in self._upkeep_queue if one in rows), None)
        if name is None:
            self._upkeep_queue = iter([*rows])
            name = next(self._upkeep_queue, None)
        if name is None:
            return
        store = self._fleet.pasts.history(name)
        with self._of_nodes.of(name, "its last readings are not kept"):
            if rows[name].state is NodeState.SILENT:
                self._fleet.fold(name, store)
        with self._of_nodes.of(name, "its history is not kept tidy"):
            self._maintainer(store).step(time.time())
            self._fleet.pasts.alerts(name).prune(time.time())

    def _translated(self, error: Exception) -> AndonError:
        self._failures.add(error)
        return Unavailable(f"keeping the nodes failed: {error}")


def found_in(rows: Sequence[NodeRow], version: str) -> list[OwnTrouble]:
    """Returns the troubles of nodes that only a hub notices: silence, unless they are drained;
    doubtful reports; a version other than its own."""
    found = list[OwnTrouble]()
    for row in rows:
        hint = f"see: andon nodes show {row.name}"
        if row.silent_seconds >= ALERT_SECONDS and not row.drained:
            found.append(OwnTrouble(f"node_silent:{row.name}", row.reason or row.state, hint))
        if row.doubt is not None:
            found.append(OwnTrouble(f"node_doubtful:{row.name}", row.doubt, hint))
        if row.heard and (other := version_trouble(row.version, version)) is not None:
            found.append(OwnTrouble(f"node_version:{row.name}", other, "upgrade the older of both"))
    return found
