"""Finds the trusted server of this machine that answers in time: this user's own, else the
system's.

Other users' servers are not used: alerts contain commands to type, and any user may listen on a
port.
"""

import os
import time
from typing import TYPE_CHECKING

from andon.errors import AndonError, Denied, Unavailable
from andon.node.local_server import local_servers
from andon.node.rest import RestServer
from andon.node.usual_server import usual_url

if TYPE_CHECKING:
    from andon.node.calls import CallLimits
    from andon.node.server import Server

TIMEOUT_SECONDS, MOST_BYTES = 3.0, 1 << 20
ALERTS_PATH = "/api/alerts?limit=1"
SILENT_SECONDS = 5.0  # one that did not answer in time is not asked again at once

_silent: dict[str, float] = {}
"""The servers of this machine that did not answer in time, and until when they are not asked."""


def running_server(token_file: str | None, limits: "CallLimits | None" = None) -> RestServer | None:
    """Returns the server that answers, read at its local socket; over HTTP where it has none, or
    a token was named, which may see more than this user."""
    if token_file is None and not os.environ.get("ANDON_TOKEN"):
        for server in local_servers(
            (ALERTS_PATH,), over_http=lambda: _over_http(token_file, limits)
        ):
            if _has_alerts(server):
                return server
    return _over_http(token_file, limits)


def _has_alerts(server: RestServer) -> bool:
    try:
        server.get(ALERTS_PATH)
    except AndonError:
        return False
    return True


def _over_http(token_file: str | None, limits: "CallLimits | None" = None) -> "Server | None":
    from andon.node.calls import CallLimits
    from andon.node.server import own_server, service

    limits = limits or CallLimits(TIMEOUT_SECONDS, MOST_BYTES)
    own = own_server()
    if own is not None and _answers(own, limits, Unavailable, Denied):
        return own
    system = service(usual_url(), token_file)
    if not _answers(system, limits, Unavailable) or _is_demo(system, limits):
        return None
    return system


def silent_server() -> str | None:
    """Returns the URL of a server that did not answer in time, if any."""
    return next(iter(_silent), None)


def _is_demo(server: "Server", limits: "CallLimits") -> bool:
    """Whether it is `andon demo`, whose devices are not this machine's."""
    return bool(server.within(limits).get("/api/features").get("demo"))


def _answers(server: "Server", limits: "CallLimits", *absent: type[AndonError]) -> bool:
    """Whether the server answers in time and has proved its identity."""
    began = time.monotonic()
    if began < _silent.get(server.url, 0.0):
        return False
    try:
        server.within(limits).get(ALERTS_PATH)
    except absent:
        now = time.monotonic()
        if now - began >= limits.timeout_seconds:
            _silent[server.url] = now + SILENT_SECONDS
        return False
    _silent.pop(server.url, None)
    return True
