"""Requests to the path of live events: what they ask, and the scopes that the library is given."""

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qs

from andon.core.access.policy import Refusal
from andon.web.live.visitors import Visitor
from andon.web.transport.asgi import Message, Receive, Scope, Send
from andon.web.transport.auth import refuse

POLLING, WEBSOCKET = "polling", "websocket"
VISITOR = "andon.visitor"
"""The place in a scope made here that names the connection it belongs to."""
_MOST_FIELDS = 8
_LONGEST_NAME = 64
_UPGRADE = [(b"connection", b"upgrade"), (b"upgrade", b"websocket")]


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """The query of a request, as far as it means anything here."""

    transport: str
    name: str | None  # of the connection

    @property
    def query(self) -> bytes:
        named = f"&sid={self.name}" if self.name else ""
        return f"EIO=4&transport={self.transport}{named}".encode()


def asked(scope: Scope) -> LiveRequest | None:
    """None for what is no request of Socket.IO; JSONP, which no client of today uses, included."""
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


def request_scope(asked: LiveRequest, method: str, visitor: Visitor, body: bytes = b"") -> Scope:
    """For the library: nothing that the client wrote but the name of a connection we know."""
    headers = [(b"content-length", str(len(body)).encode())]
    return {"type": "http", "method": method, **_shared(asked, visitor), "headers": headers}


def websocket_scope(asked: LiveRequest, visitor: Visitor) -> Scope:
    return {"type": "websocket", **_shared(asked, visitor), "headers": _UPGRADE}


def _shared(asked: LiveRequest, visitor: Visitor) -> dict[str, object]:
    return {"path": "/", "query_string": asked.query, VISITOR: visitor}


def replayed(body: bytes) -> Receive:
    """For the library: a body that was read and checked before."""

    async def received() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return received


async def read_body(receive: Receive) -> bytes | None:
    """The gate has seen to its size; None where the client hung up."""
    parts = list[bytes]()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def hung_up(receive: Receive) -> None:
    """Until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_gone(work: Awaitable[None]) -> None:
    """A client that goes away in the middle of an answer is no error."""
    with suppress(OSError):
        await work


async def turn_away(
    scope: Scope, receive: Receive, send: Send, refusal: Refusal, wait_seconds: float = 0.0
) -> None:
    """Refuse, and close the connection: an idle one would keep its place for a while."""

    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)

    await refuse(scope, receive, closing, refusal, wait_seconds)


class Begun:
    """Passes an answer on, and remembers that it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_so = False

    async def __call__(self, message: Message) -> None:
        self.is_so = True
        await self._send(message)
