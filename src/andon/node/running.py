"""Finds the trusted server of this machine that answers in time: this user's own, else the
system's.

Other users' servers are not used: alerts contain commands to type, and any user may listen on a
port.
"""

import time

from andon.errors import AndonError, Denied, Unavailable
from andon.node.calls import CallLimits
from andon.node.server import Server, own_server, service
from andon.node.usual_server import usual_url

LOOK_LIMITS = CallLimits(timeout_seconds=3.0, most_bytes=1 << 20)
SILENT_SECONDS = 5.0  # one that did not answer in time is not asked again at once

_silent: dict[str, float] = {}
"""The servers of this machine that did not answer in time, and until when they are not asked."""


def running_server(token_file: str | None, limits: CallLimits = LOOK_LIMITS) -> Server | None:
    own = own_server()
    if own is not None and _answers(own, limits, Unavailable, Denied):
        return own
    system = service(usual_url(), token_file)
    return system if _answers(system, limits, Unavailable) and not _is_demo(system) else None


def silent_server() -> str | None:
    """Returns the URL of a server that was asked and did not answer in time."""
    return next(iter(_silent), None)


def _is_demo(server: Server) -> bool:
    """Whether it shows a simulated lab, which does not speak for this machine."""
    return bool(server.within(LOOK_LIMITS).get("/api/features").get("demo"))


def _answers(server: Server, limits: CallLimits, *absent: type[AndonError]) -> bool:
    """Whether the server answers in time and is genuine; an unproven one does not count."""
    began = time.monotonic()
    if began < _silent.get(server.url, 0.0):
        return False
    try:
        server.within(limits).get("/api/alerts?limit=1")
    except absent:
        now = time.monotonic()
        if now - began >= limits.timeout_seconds:
            _silent[server.url] = now + SILENT_SECONDS
        return False
    _silent.pop(server.url, None)
    return True
