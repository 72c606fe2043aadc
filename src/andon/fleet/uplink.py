"""Reports a node to its hub: a heartbeat every five seconds, while sampling goes on."""

import logging
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from andon.checks.store import RecentChecks
from andon.errors import AndonError, Unavailable
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.fleet.link import HEARTBEAT, HubLink
from andon.fleet.rules.digest import Digest, digest_of, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body, packed_ticks
from andon.fleet.rules.states import clock_trouble
from andon.fleet.rules.thresholds import changes_of
from andon.history.rules.notes import KnownNotes
from andon.history.rules.series import NodeReadings, tick_of
from andon.model.device import Snapshot
from andon.model.run.record import RunRow, RunState
from andon.model.wire import Json, bare_snapshot
from andon.node.served import ServedNode
from andon.node.watched.leases import RECENT_SECONDS, ServedLeases
from andon.runs.rules.matching import RunQuery
from andon.version import __version__

log = logging.getLogger("andon.uplink")

DRAINED = "drained by the hub"
EVERY_SECONDS = 5.0
MOST_TICKS = 60
"""Ticks that wait for the hub; what is older comes with the blocks of the history."""
START_SECONDS = 0.1
"""How often the first snapshot is looked for."""
LEAVING_SECONDS = 2.0
BACK_OFF = BackOff(EVERY_SECONDS, 15.0)
TEXTS = RetryTexts(
    lambda reason: f"the hub gets no heartbeats: {reason}",
    lambda away: f"the hub gets heartbeats again after {away}",
)


class ReportLink(Protocol):
    """Takes reports, as a HubLink does."""

    @property
    def url(self) -> str: ...

    def send(self, path: str, body: bytes) -> Json: ...

    def close(self) -> None: ...


class Uplink:
    """One thread between a node and the hub; the node never waits for it."""

    def __init__(
        self,
        node: ServedNode,
        link: ReportLink,
        machine: str,
        on_sent: Callable[[Digest], None] = lambda _: None,
        afterwards: Callable[[float], None] = lambda offset: None,
        every_seconds: float = EVERY_SECONDS,
        back_off: BackOff = BACK_OFF,
        on_trouble: Callable[[AndonError | None], None] = lambda _: None,
        hands_over: bool = True,
        metrics: Callable[[], str | None] = lambda: None,
        checks: RecentChecks | None = None,
        share_labels: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """`on_sent` is called for each acknowledged heartbeat; `afterwards`, with the offset of the
        hub's clock, to send what is not urgent; `on_trouble` when the reason for which reports are
        refused changes. With `hands_over` the hub may notify people in the node's place; `metrics`
        returns the base address of the node's own metrics, `share_labels` what its GPUs are called
        by now."""
        self._node, self._link, self._machine = node, link, machine
        self._notices = node.alerts.notices if hands_over else None
        self._metrics, self._checks = metrics, checks or RecentChecks()
        self._share_labels = share_labels
        self._on_sent, self._afterwards = on_sent, afterwards
        self._every_seconds, self._on_trouble = every_seconds, on_trouble
        self._number, self._run_id = 0, secrets.token_hex(8)
        self._latest: Snapshot | None = None
        self._new: deque[Snapshot] = deque(maxlen=MOST_TICKS)
        self._ticks: deque[NodeReadings] = deque(maxlen=MOST_TICKS)
        self._drained: bool | None = None
        self._clock: str | None = None
        self._over = threading.Event()
        self._failures = FailureLog("andon.uplink", "reporting to the hub failed; it goes on")
        self._retrying = Retrying(self._changed, TEXTS, self._translated, back_off)
        self._leave = node.live.listen(self._new.append)  # this thread wakes for heartbeats alone
        self._thread = threading.Thread(target=self._run, name="uplink", daemon=True)
        self._thread.start()

    def health(self) -> Json:
        trouble = self._retrying.trouble
        return {
            "state": "ok" if trouble is None else "failing",
            "reason": None if trouble is None else trouble.reason,
            "hint": None if trouble is None else trouble.hint or None,
            "hub": self._link.url,
            "sent": self._number,
        }

    def close(self) -> None:
        self._over.set()
        self._leave()
        self._thread.join(LEAVING_SECONDS)
        self._link.close()

    def _run(self) -> None:
        due = time.monotonic() + random.uniform(0.0, 1.0)  # noqa: S311 - nodes start together
        while not self._over.wait(max(0.0, due - time.monotonic())):
            while self._new:
                self._latest = self._new.popleft()
                self._ticks.append(tick_of(self._latest))
            with suppress(Unavailable):
                self._latest = self._latest or self._node.live.newest()
            if self._latest is None:
                due = time.monotonic() + START_SECONDS
                continue
            if self._retrying.attempt(self._beat) is None:
                self._retrying.succeeded()
                due = max(due + self._every_seconds, time.monotonic())
            else:
                spread = random.uniform(0.8, 1.2)  # noqa: S311
                late = max(self._retrying.due - time.monotonic(), self._every_seconds)
                due = time.monotonic() + spread * late

    def _changed(self, message: str) -> None:
        log.warning(message)
        self._on_trouble(self._retrying.trouble)

    def _beat(self) -> None:
        snapshot, ticks = self._latest, list(self._ticks)
        assert snapshot is not None
        notices, notified = self._notices, None
        handed = notices.hand_over() if notices else ()
        try:
            digest, report = self._report(snapshot)
            self._number += 1
            header = HeartbeatHeader(self._run_id, self._number, time.time())
            given = deflated({"notices": handed}) if handed else b""
            body = heartbeat_body(header, encoded(digest), report, packed_ticks(ticks), given)
            answer = self._link.send(HEARTBEAT, body)
            notified = answer.get("notifies") is True
        finally:
            if notices:
                notices.handed_over(handed, notified)
        for _ in ticks:
            self._ticks.popleft()
        self._on_sent(digest)
        self._obey(answer, header.sent)

    def _report(self, snapshot: Snapshot) -> tuple[Digest, bytes]:
        """Returns the digest, and the full report of this node as it is now."""
        node, book = self._node, self._node.alerts.rulebook
        alerts = tuple(node.alerts.current())
        leases = node.leases.listed(RECENT_SECONDS) if node.leases.supported else None
        views = node.jobs.listing().views if node.has_jobs else ()
        jobs = [one for one in views if one.ended is None and one.engine is None]
        by_lease = {one.lease: one for one in jobs if one.lease is not None}
        noted: KnownNotes | None = None
        with suppress(AndonError):  # there is no history, or its notes cannot be read
            noted = node.past.noted.latest()
        going: Sequence[RunRow] = ()
        with suppress(AndonError):  # their index cannot be read
            going = node.runs.find(RunQuery(state=RunState.RUNNING))
        digest = digest_of(
            snapshot,
            leases,
            node.live.lamps(snapshot),
            node.alerts.firing(),
            by_lease,
            self._machine,
            __version__,
            self._metrics(),
            going,
            [*self._checks.latest().values()],
            self._share_labels(),
        )
        document: dict[str, Any] = {
            "snapshot": bare_snapshot(snapshot),
            "leases": leases,
            "alerts": alerts,
            "silences": node.alerts.silences(),
            "thresholds": None if book is None else changes_of(book),
            "jobs": jobs,
            "checks": self._checks.brief(),
            "noted": noted,
        }
        return digest, deflated(document)

    def _obey(self, answer: Json, sent: float) -> None:
        """Does what the hub asks for, and sends what is not urgent. Reports a wrong clock once."""
        at, drained = answer.get("at"), answer.get("drained")
        offset = at - sent if isinstance(at, int | float) else 0.0
        wrong = clock_trouble(sent + offset, sent)
        if wrong is not None and self._clock is None:
            log.warning("this machine's clock is wrong, says the hub: %s", wrong)
        self._clock = wrong
        if isinstance(drained, bool) and drained != self._drained:
            self._drained = drained
            with suppress(AndonError):
                mark_drained(self._node.leases, drained)
        with suppress(AndonError):  # the heartbeat itself was taken; the rest is tried again
            self._afterwards(offset)

    def _translated(self, error: Exception) -> AndonError:
        self._failures.add(error)
        return Unavailable(f"reporting failed: {error}")


def mark_drained(leases: ServedLeases, drained: bool) -> None:
    """Cordons this node's devices while its hub marks it as drained, and uncordons them afterwards,
    if this user may."""
    if not leases.supported:
        return
    listed = leases.listed()
    own = {row.uuid for row in listed.cordons if row.reason == DRAINED}
    others = {row.uuid for row in listed.cordons} - own
    for device in listed.devices if drained else ():
        if device.uuid not in own | others:
            leases.book.cordon(device.uuid, DRAINED)
    for uuid in () if drained else own:
        leases.book.uncordon(uuid)


def is_refused(link: HubLink) -> bool:
    """Whether a hub answers that this node may not report."""
    try:
        link.send(HEARTBEAT, b"")
    except AndonError as exc:
        return not isinstance(exc, Unavailable)
    return False
