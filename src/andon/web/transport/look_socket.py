"""The local socket at which this machine's users get the server's latest snapshot."""

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from andon.access.look import SCHEMA, look_name
from andon.access.roles import identity_of, sight_of
from andon.alerts.rules.lamps import lamps_of
from andon.failures.log import FailureLog
from andon.host.processes.kin import account_name
from andon.model.lamp import DeviceLamp
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.web.answers.alert_payloads import seen_by
from andon.web.answers.texts import SnapshotTexts
from andon.web.transport.local_socket import PAUSE_SECONDS, LocalSocket

if TYPE_CHECKING:
    from andon.access.roles import Sight
    from andon.alerts.watcher import Watcher
    from andon.leases.network import RemoteLeases
    from andon.model.device import Snapshot


class LookSocket(LocalSocket):
    """Sends `/api/snapshot`, `/api/board` and `/api/leases`, as far as status shows them."""

    def __init__(
        self,
        port: int,
        server_uid: int,
        feed: SnapshotFeed,
        watcher: "Watcher | None" = None,
        leases: "RemoteLeases | None" = None,
        name_of: Callable[[int], str | None] = account_name,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._server_uid, self._name_of = server_uid, name_of
        self._feed, self._watcher, self._leases = feed, watcher, leases
        self._texts = SnapshotTexts()
        failures = FailureLog("andon.web", "the latest snapshot could not be given")
        name = look_name(port, secrets.token_hex(16))
        super().__init__(name, self._look, failures, pause_seconds)

    def _look(self, uid: int | None) -> bytes:
        """Returns the message; empty for a uid without an account here."""
        user = None if uid is None else self._name_of(uid)
        if uid is None or user is None:
            return b""
        sight, snapshot = sight_of(identity_of(uid, user, self._server_uid)), self._feed.latest()
        return msgspec.json.encode(
            {
                "schema": SCHEMA,
                "interval_seconds": self._feed.settings.interval_seconds,
                "snapshot": msgspec.Raw(self._texts.of(snapshot, sight).encode()),
                "lamps": self._lamps(snapshot, sight),
                **self._verdicts(),
            }
        )

    def _lamps(self, snapshot: "Snapshot", sight: "Sight") -> "tuple[DeviceLamp, ...] | None":
        if self._watcher is None:
            return None
        return lamps_of(snapshot, [seen_by(sight, alert) for alert in self._watcher.alerts()])

    def _verdicts(self) -> "dict[str, object]":
        """Returns the verdicts; empty if they depend on the user, because someone is in the
        queue, or are unknown."""
        found = None if self._leases is None else self._leases.listed()
        if found is None or found.waiting or not found.devices:
            return {}
        return {"verdicts": found.devices, "listed_at": found.at}
