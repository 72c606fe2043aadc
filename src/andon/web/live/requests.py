"""Requests to the path of live events: parsing them, and the scopes passed to the library."""

from collections.abc import Awaitable
from contextlib import suppress
from urllib.parse import parse_qs

from msgspec import Struct

from andon.access.gate import Refusal
from andon.web.live.visitors import Visitor
from andon.web.transport.auth import refuse
from andon.web.transport.headers import Message, Receive, Scope, Send

POLLING, WEBSOCKET = "polling", "websocket"
VISITOR = "andon.visitor"
"""The key in a scope made here for the connection it belongs to."""
_MOST_FIELDS = 8
_LONGEST_NAME = 64
_UPGRADE = [(b"connection", b"upgrade"), (b"upgrade", b"websocket")]


class LiveRequest(Struct, frozen=True):
    """The relevant part of a request's query."""

    transport: str
    name: str | None  # of the connection (Engine.IO's sid)

    @property
    def query(self) -> bytes:
        named = f"&sid={self.name}" if self.name else ""
        return f"EIO=4&transport={self.transport}{named}".encode()


def parse_query(scope: Scope) -> LiveRequest | None:
    """Parses the query; None if it is not a Socket.IO request. JSONP, which no current client
    uses, is refused."""
    try:
        query = parse_qs(
            scope.get("query_string", b"").decode("ascii"), max_num_fields=_MOST_FIELDS
        )
    except ValueError:
        return None
    wanted = WEBSOCKET if scope["type"] == "websocket" else POLLING
    names = query.get("sid", [])
    if query.get("transport") != [wanted] or query.get("EIO") != ["4"] or "j" in query:
        return None
    if len(names) > 1 or any(len(name) > _LONGEST_NAME for name in names):
        return None
    return LiveRequest(wanted, names[0] if names else None)


def request_scope(request: LiveRequest, method: str, visitor: Visitor, body: bytes = b"") -> Scope:
    """A scope for the library; of the client's input it has only the name of a known connection."""
    headers = [(b"content-length", str(len(body)).encode())]
    return {"type": "http", "method": method, **_shared(request, visitor), "headers": headers}


def websocket_scope(request: LiveRequest, visitor: Visitor) -> Scope:
    return {"type": "websocket", **_shared(request, visitor), "headers": _UPGRADE}


def _shared(request: LiveRequest, visitor: Visitor) -> dict[str, object]:
    return {"path": "/", "query_string": request.query, VISITOR: visitor}


def replayed(body: bytes) -> Receive:
    """Returns a receive function for the library, with a body that has been read and checked."""

    async def received() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return received


async def until_gone(work: Awaitable[None]) -> None:
    """Runs the work; a client that disconnects in the middle of a response is not an error."""
    with suppress(OSError):
        await work


async def turn_away(
    scope: Scope, receive: Receive, send: Send, refusal: Refusal, wait_seconds: float = 0.0
) -> None:
    """Refuse, and close the connection: an idle one would keep its seat for a while."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    await refuse(scope, receive, closing, refusal, wait_seconds)
