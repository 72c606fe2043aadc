"""Reports a node to its hub: a heartbeat every five seconds, while sampling goes on."""

import logging
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Struct

from andon.alerts.rules.handover import HandedNotice
from andon.alerts.rules.lamps import lamps_of
from andon.errors import AndonError, Unavailable
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.fleet.link import HEARTBEAT, HubLink
from andon.fleet.rules.digest import Digest, digest_of, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body, packed_ticks
from andon.fleet.rules.states import clock_trouble
from andon.history.rules.series import NodeReadings, tick_of
from andon.model.alert import Alert, Silence
from andon.model.device import Snapshot
from andon.model.job.facts import JobView
from andon.model.lease_list import LeaseList
from andon.model.run.record import RunRow
from andon.model.wire import Json, bare_snapshot
from andon.sampling.bus import Subscription
from andon.version import __version__

log = logging.getLogger("andon.uplink")

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


class ReportSources(Struct, frozen=True):
    """Where a report comes from. Each may be called from the thread of the reports."""

    leases: Callable[[], LeaseList | None] = lambda: None
    alerts: Callable[[], Sequence[Alert]] = tuple
    silences: Callable[[], Sequence[Silence]] = tuple
    firing: Callable[[], Mapping[str, int]] = dict
    jobs: Callable[[], Sequence[JobView]] = tuple
    """Those that wait or run."""
    runs: Callable[[], Sequence[RunRow]] = tuple
    """Those that go on."""
    hand_over: Callable[[], "Sequence[HandedNotice]"] = tuple
    """Called when a heartbeat begins: the notices for it."""
    handed_over: Callable[[Sequence[HandedNotice], bool | None], None] = lambda by_hub, told: None
    """Called when it ends: with what the hub took, and whether it notifies people; None if it did
    not answer."""
    metrics: Callable[[], str | None] = lambda: None
    """Where this node's own metrics are, without the path."""


class ReportLink(Protocol):
    """What takes reports."""

    @property
    def url(self) -> str: ...

    def send(self, path: str, body: bytes) -> Json: ...

    def close(self) -> None: ...


class Uplink:
    """One thread between a session of the sampler and the hub; the sampler never waits for it."""

    def __init__(
        self,
        session: Subscription,
        link: ReportLink,
        sources: ReportSources,
        machine: str,
        on_sent: Callable[[Digest], None] = lambda _: None,
        on_drained: Callable[[bool], None] = lambda _: None,
        afterwards: Callable[[float], None] = lambda offset: None,
        every_seconds: float = EVERY_SECONDS,
        back_off: BackOff = BACK_OFF,
        on_trouble: Callable[[AndonError | None], None] = lambda _: None,
    ) -> None:
        """`on_sent` is called for each heartbeat that was acknowledged, `on_drained` when the hub
        marks this node or ends that, `afterwards` to send what is not urgent; it gets how much the
        hub's clock is ahead. `on_trouble` gets why reports are not taken, when that changes."""
        self._session, self._link, self._sources, self._machine = session, link, sources, machine
        self._on_sent, self._on_drained, self._afterwards = on_sent, on_drained, afterwards
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
        session.on_close(self._over.set)
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
        self._session.close()
        self._thread.join(LEAVING_SECONDS)
        self._link.close()

    def _run(self) -> None:
        due = time.monotonic() + random.uniform(0.0, 1.0)  # noqa: S311 - nodes start together
        self._session.call(self._new.append)  # this thread wakes up for heartbeats alone
        while not self._over.wait(max(0.0, due - time.monotonic())):
            while self._new:
                self._latest = self._new.popleft()
                self._ticks.append(tick_of(self._latest))
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

    def _changed(self, words: str) -> None:
        log.warning(words)
        self._on_trouble(self._retrying.trouble)

    def _beat(self) -> None:
        snapshot, ticks = self._latest, list(self._ticks)
        assert snapshot is not None
        handed, notifies = self._sources.hand_over(), None
        try:
            digest, report = self._report(snapshot)
            self._number += 1
            header = HeartbeatHeader(self._run_id, self._number, time.time())
            notices = deflated({"notices": handed}) if handed else b""
            body = heartbeat_body(header, encoded(digest), report, packed_ticks(ticks), notices)
            answer = self._link.send(HEARTBEAT, body)
            notifies = answer.get("notifies") is True
        finally:
            self._sources.handed_over(handed, notifies)
        for _ in ticks:
            self._ticks.popleft()
        self._on_sent(digest)
        self._obey(answer, header.sent)

    def _report(self, snapshot: Snapshot) -> tuple[Digest, bytes]:
        """Returns the digest, and all that can be asked about this node now."""
        sources = self._sources
        leases, alerts, jobs = sources.leases(), tuple(sources.alerts()), sources.jobs()
        by_lease = {one.lease: one for one in jobs if one.lease is not None}
        digest = digest_of(
            snapshot,
            leases,
            lamps_of(snapshot, alerts),
            sources.firing(),
            by_lease,
            self._machine,
            __version__,
            sources.metrics(),
            sources.runs(),
        )
        document: dict[str, Any] = {
            "snapshot": bare_snapshot(snapshot),
            "leases": leases,
            "alerts": alerts,
            "silences": sources.silences(),
            "jobs": jobs,
        }
        return digest, deflated(document)

    def _obey(self, answer: Json, sent: float) -> None:
        """Does what a hub may ask for, and sends what is not urgent. A wrong clock is reported
        once."""
        at, drained = answer.get("at"), answer.get("drained")
        offset = at - sent if isinstance(at, int | float) else 0.0
        wrong = clock_trouble(sent + offset, sent)
        if wrong is not None and self._clock is None:
            log.warning("this machine's clock is wrong, says the hub: %s", wrong)
        self._clock = wrong
        if isinstance(drained, bool) and drained != self._drained:
            self._drained = drained
            with suppress(AndonError):
                self._on_drained(drained)
        with suppress(AndonError):  # the heartbeat itself was taken; the rest is tried again
            self._afterwards(offset)

    def _translated(self, error: Exception) -> AndonError:
        self._failures.add(error)
        return Unavailable(f"reporting failed: {error}")


def is_refused(link: HubLink) -> bool:
    """Whether a hub answers that this node may not report."""
    try:
        link.send(HEARTBEAT, b"")
    except AndonError as exc:
        return not isinstance(exc, Unavailable)
    return False
