"""The readings of a server's devices: one snapshot, or a session of them."""

import threading
from collections.abc import Callable, Sequence
from functools import partial

from andon.alerts.rules.lamps import lamps_of
from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.errors import AndonError, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.failures.retrying import Retrying, RetryTexts
from andon.failures.rules.backoff import BackOff
from andon.model import wire, wire_in
from andon.model.codec import Wrong
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.node.following import PolledSession
from andon.node.remote.alerts import RemoteAlerts
from andon.node.rest import MINUTES, Notify, RestServer
from andon.sampling.rules.readings import checked_snapshot

BACK_OFF = BackOff(0.5, 30.0, at_once=0)


class RemoteLive:
    """Polls a server; its snapshots need no driver here."""

    def __init__(
        self,
        server: RestServer,
        rulebook: Callable[[], Rulebook],
        notify: Notify = lambda _: None,
        completed: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot,
    ) -> None:
        """`rulebook` has the thresholds for lamps if the server gives no alerts; `completed` adds
        to a snapshot what this user may see and the server withholds."""
        self.server, self._rulebook, self._notify = server, rulebook, notify
        self._completed = completed

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        return self.read()

    def read(self, expensive_fields: bool = False) -> Snapshot:
        return self._snapshot(self.server.get("/api/snapshot"))

    def placed(self) -> Snapshot:
        from andon.model.links import with_places

        try:
            return with_places(self.read(), self.server.get("/api/topology"))
        except Wrong as exc:
            raise self.server.of_another_version(str(exc)) from exc

    def minutes(self) -> Sequence[Snapshot]:
        items = self.server.get(MINUTES).get("items")
        found = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
        return [self._snapshot(one) for one in found] or [self.read()]

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        return lamps_by(RemoteAlerts(self.server), snapshot) or lamps_from_sample(
            snapshot, self._rulebook()
        )

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> PolledSession:
        return self._polled(self.read, interval_seconds)

    def _polled(self, read: Callable[[], Snapshot], interval_seconds: float) -> PolledSession:
        return PolledSession(read, interval_seconds, partial(self.patiently, read=read))

    def patiently(
        self, back_off: BackOff = BACK_OFF, read: Callable[[], Snapshot] | None = None
    ) -> Snapshot:
        """Returns a snapshot; while the server is down, reports that and retries."""
        texts = RetryTexts(
            lambda reason: f"{reason}; retrying",
            lambda away: f"{self.server.url} is responding again after {away}",
        )
        retrying = Retrying(self._notify, texts, back_off=back_off)
        while True:
            try:
                found = (read or self.read)()
            except Unavailable as exc:
                retrying.failed(retrying.trouble or exc)  # one line, however it fails later
                retrying.pause(threading.Event())
                continue
            retrying.succeeded()
            return found

    def _snapshot(self, payload: wire.Json) -> Snapshot:
        try:
            return self._completed(checked_snapshot(wire_in.snapshot_from_json(payload)))
        except Invalid as exc:
            raise self.server.of_another_version(exc.reason) from exc


def lamps_by(alerts: RemoteAlerts, snapshot: Snapshot) -> tuple[DeviceLamp, ...] | None:
    """Returns the lamps by a server's alerts; None if it does not answer, or is about other
    devices."""
    if not snapshot.devices:
        return None
    try:
        page = alerts.page()
    except AndonError:
        return None
    same = (page.node, page.simulated) == (snapshot.node, snapshot.simulated)
    return lamps_of(snapshot, page.alerts) if same else None
