"""Broken devices according to this machine's andon server; none if no server answers.

Xids are momentary: a command that samples once misses them, a running server does not.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from andon.errors import AndonError
from andon.host.server import server_file
from andon.host.server.node_folder import node_path
from andon.host.server.state_folder import own_token, state_folder
from andon.host.server.usual_server import usual_port

if TYPE_CHECKING:
    from andon.host.server.calls import Target

ASKED = "/api/alerts?state=firing&level=critical&limit=1000"
KEPT_SECONDS = 5.0
TIMEOUT_SECONDS = 0.5
MOST_BYTES = 4 << 20


class BrokenDevicesQuery:
    """Called before every choice of a device; queries the server every few seconds."""

    def __init__(self, port: int | None = None) -> None:
        self._port = usual_port() if port is None else port
        self._at: float | None = None
        self._said: Mapping[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        """uuid -> why it must not be assigned."""
        now = time.monotonic()
        if self._at is None or now - self._at >= KEPT_SECONDS:
            self._said, self._at = self._ask(), now
        return self._said

    def _ask(self) -> Mapping[str, str]:
        answers = (_get(target) for target in self._targets())
        return next((said for said in answers if said is not None), {})

    def _targets(self) -> Iterator["Target"]:
        """This user's own server; else the system's, without our token."""
        from andon.host.server.calls import Target, Token, Trust

        own, token = server_file.find(node_path()), _token()
        if own is not None and token is not None:
            yield Target(own, Trust.PROVEN, Token(token))
        yield Target(f"http://127.0.0.1:{self._port}", Trust.SERVICE)


def _get(target: "Target") -> Mapping[str, str] | None:
    """None if it does not answer in time, or not as a server of this version does."""
    from andon.core.sharing.broken_devices import reported_broken
    from andon.host.server.calls import FAILURES, Asked, CallLimits, call
    from andon.model import wire
    from andon.model.alert_wire import alerts_from_json

    try:
        answer = call(target, Asked("GET", ASKED), CallLimits(TIMEOUT_SECONDS, MOST_BYTES))
        if answer.status != 200:
            return None
        alerts, _ = alerts_from_json(wire.loads(answer.body.decode()))
        return reported_broken(alerts)
    except (AndonError, *FAILURES):
        return None


def _token() -> str | None:
    """Without it this user's own server cannot be verified, and is not asked."""
    try:
        return own_token(state_folder())
    except AndonError:
        return None
