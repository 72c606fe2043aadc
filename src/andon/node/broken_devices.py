"""Broken devices according to this machine's andon server; none if no server answers.

Xids are momentary: a command that samples once misses them, a running server does not.
"""

import time
from collections.abc import Mapping

from andon.errors import AndonError
from andon.model import wire
from andon.node.usual_server import may_be_running, usual_port

ASKED = "/api/alerts?state=firing&level=critical&limit=1000"
KEPT_SECONDS = 5.0
TIMEOUT_SECONDS = 0.5
MOST_BYTES = 4 << 20


class BrokenDevicesQuery:
    """Called before every choice of a device; queries the server every few seconds."""

    def __init__(self, port: int | None = None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._port = usual_port() if port is None else port
        self._limits = timeout_seconds, MOST_BYTES
        self._at: float | None = None
        self._said: Mapping[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        """Returns why devices must not be assigned, by uuid."""
        now = time.monotonic()
        if self._at is None or now - self._at >= KEPT_SECONDS:
            self._said, self._at = self._ask(), now
        return self._said

    def _ask(self) -> Mapping[str, str]:
        if not may_be_running(port=self._port):
            return {}
        from andon.node.calls import CallLimits
        from andon.node.trusted import ask_trusted

        answers = ask_trusted(ASKED, CallLimits(*self._limits), self._port)
        return next((said for one in answers if (said := _read(one.body)) is not None), {})


def _read(body: bytes) -> Mapping[str, str] | None:
    """Reads the answer; None if it is not that of a server of this version."""
    from andon.leases.rules.broken_devices import reported_broken
    from andon.model.alert_wire import alerts_from_json

    try:
        alerts, _ = alerts_from_json(wire.loads(body.decode(), wire.ANSWER))
        return reported_broken(alerts)
    except (AndonError, ValueError):
        return None
