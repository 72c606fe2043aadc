"""The server's HTTP connections: each has its time and its place, and no error is plain text.

Whoever connects and says nothing, or asks and does not take the answer, costs a place and memory.
Both have a deadline, and when places are short the one that has kept others waiting longest goes.
"""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from andon.core.access import Refusal
from andon.web.asgi import Receive, Scope, Send
from andon.web.auth import refuse
from andon.web.problems import problem

MOST_CONNECTIONS = 2000
MOST_STALLED = 64  # an answer may have megabytes
OWED_SECONDS = 10.0  # for a whole request, from its first byte or from connecting
STALLED_SECONDS = 60.0
RESERVED_FILES = 256  # for the store, the readers and whatever a request opens

BAD_REQUEST = Refusal(400, "this is no HTTP request that can be read", "is the URL http or https?")
BAD_UPGRADE = Refusal(
    400, "this is no WebSocket handshake", "version 13, with a key of 16 bytes in base64"
)
FULL = Refusal(503, "all connections of this server are in use", "try again in a few seconds")


def most_connections() -> int:
    """As many as there are files for; the soft limit is often far below what is allowed."""
    try:
        import resource
    except ImportError:  # not on this system, which has no such limit
        return MOST_CONNECTIONS
    wanted = MOST_CONNECTIONS + RESERVED_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(16, min(MOST_CONNECTIONS, soft - RESERVED_FILES))


@dataclass(slots=True)
class Places:
    """What the connections of one server share; the oldest of each kind comes first."""

    most: int = MOST_CONNECTIONS
    owing: dict["Connection", None] = field(default_factory=dict)
    stalled: dict["Connection", None] = field(default_factory=dict)
    dated: int = 0  # the second that the answers' date tells

    def date(self, state: ServerState) -> None:
        """Asked with every request, so that no clock has to wake the server."""
        second = int(time.time())
        if second != self.dated:
            self.dated = second
            state.default_headers = [(b"date", formatdate(second, usegmt=True).encode())]

    def connection(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> "Connection":
        """What uvicorn calls for every new one."""
        return Connection(self, config, server_state, app_state)


class Connection(H11Protocol):
    """uvicorn's own, with deadlines and our words."""

    def __init__(
        self, places: Places, config: Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._places = places
        self._owed: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._places.most:
            self._make_room()
        self._owes()

    def data_received(self, data: bytes) -> None:
        self._places.date(self.server_state)
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            return  # a WebSocket now
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._owes()
        else:
            self._owes_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owes_nothing()
        self._moves()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """More waits to be taken than the system holds for the client."""
        super().pause_writing()
        stalled = self._places.stalled
        stalled[self] = None
        self._stall = self._stall or self.loop.call_later(STALLED_SECONDS, self._give_up)
        if len(stalled) > MOST_STALLED:
            next(iter(stalled))._give_up()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._moves()

    # What uvicorn calls.

    def send_400_response(self, msg: str) -> None:
        self._answer(BAD_REQUEST)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._owes_nothing()
        if self.app is not self.config.loaded_app:
            self._answer(FULL)
        elif not _is_handshake(dict(self.headers), event.method):
            self._answer(BAD_UPGRADE)
        else:
            super().handle_websocket_upgrade(event)

    # How it is carried out.

    def _make_room(self) -> None:
        """Somebody who owes a request goes first; where all are at work, it is this one."""
        owing = self._places.owing
        if owing:
            next(iter(owing))._give_up()
        else:
            self.app = _full

    def _owes(self) -> None:
        if self._owed is None and not self.transport.is_closing():
            self._owed = self.loop.call_later(OWED_SECONDS, self._give_up)
            self._places.owing[self] = None

    def _owes_nothing(self) -> None:
        self._places.owing.pop(self, None)
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None

    def _moves(self) -> None:
        self._places.stalled.pop(self, None)
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _give_up(self) -> None:
        self._owes_nothing()
        self._moves()
        self.transport.abort()

    def _answer(self, refusal: Refusal) -> None:
        """Where nothing was answered yet; in the middle of an answer there is nothing to say."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = problem(refusal.status, refusal.reason, refusal.hint)
            head = h11.Response(
                status_code=refusal.status,
                reason=HTTPStatus(refusal.status).phrase.encode(),
                headers=[
                    (b"content-type", b"application/json"),
                    (b"content-length", str(len(body)).encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                    (b"connection", b"close"),
                ],
            )
            for part in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    await refuse(scope, receive, send, FULL, wait_seconds=OWED_SECONDS)


def _is_handshake(headers: dict[bytes, bytes], method: bytes) -> bool:
    key = headers.get(b"sec-websocket-key", b"")
    return method == b"GET" and headers.get(b"sec-websocket-version") == b"13" and len(key) == 24
