"""Paths below a node: `/api/nodes/NAME/devices` is `/api/devices` of that node."""

import re

from andon.access.gate import is_estimate
from andon.errors import Conflict, Gone
from andon.web.answers.problems import problem_of
from andon.web.transport.headers import App, Receive, Scope, Send, send_json

NODE = "andon.node"
"""The key in an ASGI scope for the node that a request names."""
_BELOW = re.compile(r"/api/nodes/([^/]+)/(.+)")
_OWN = frozenset({"drain", "resume"})
_THERE = {
    "leases": "release ID", "reservations": "reserve", "jobs": "cancel ID", "alerts": "alerts",
    "silences": "alerts",
}  # fmt: skip


class NodePaths:
    """ASGI middleware that passes reads of `/api/nodes/NAME/X` on as `/api/X`, and refuses
    changes."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _BELOW.fullmatch(scope.get("path", "")) if scope["type"] == "http" else None
        if found is None or found[2] in _OWN:
            await self._app(scope, receive, send)
            return
        name, rest = found[1], found[2]
        reads = scope["method"] in ("GET", "HEAD") or is_estimate(scope["path"])
        if reads and not rest.startswith("nodes"):
            path = f"/api/{rest}"
            below = {**scope, "path": path, "raw_path": path.encode(), NODE: name}
            await self._app(below, receive, send)
            return
        command = _THERE.get(rest.partition("/")[0], "--help")
        error: Conflict | Gone = Conflict(
            f"a hub changes nothing on {name[:60]}", hint=f"on {name[:60]}: andon {command}"
        )
        if scope["method"] in ("GET", "HEAD"):
            error = Gone("a node has no nodes", hint="GET /api/nodes lists them")
        await send_json(send, error.http_status, problem_of(error))
