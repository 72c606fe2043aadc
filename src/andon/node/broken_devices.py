"""Broken devices according to this machine's andon server; none if no server answers.

Xids are momentary: a command that samples once misses them, a running server does not.
"""

import time
from collections.abc import Mapping

from andon.errors import AndonError
from andon.model.codec import read_document
from andon.node.usual_server import may_be_running, usual_port

ALERTS_PATH = "/api/alerts?state=firing&level=critical&limit=1000"
CACHE_SECONDS = 5.0
TIMEOUT_SECONDS = 0.5


class BrokenDevicesQuery:
    """Asks the server which devices are broken, and uses its answer for some seconds."""

    def __init__(self, port: int | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._port = usual_port() if port is None else port
        self._timeout_seconds = timeout_seconds
        self._at: float | None = None
        self._cached: Mapping[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        """Returns by UUID why devices must not be assigned."""
        now = time.monotonic()
        if self._at is None or now - self._at >= CACHE_SECONDS:
            self._cached, self._at = self._ask(), now
        return self._cached

    def _ask(self) -> Mapping[str, str]:
        if not may_be_running(port=self._port):
            return {}
        from andon.leases.rules.broken_devices import reported_broken
        from andon.model.alert import AlertList
        from andon.node.local_server import local_servers

        for server in local_servers((ALERTS_PATH,), self._timeout_seconds, port=self._port):
            try:
                alerts = read_document(AlertList, server.get(ALERTS_PATH)).alerts
            except AndonError:  # it has no alerts, or is of another version
                continue
            return reported_broken(alerts)
        return {}
