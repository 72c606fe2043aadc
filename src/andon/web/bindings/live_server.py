"""python-socketio's server as used here, with everything that relies on its internals.

tests/unit/web/test_web_live_server.py has a test for each of these bindings.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import engineio
import socketio

from andon.web.bindings.client_socket import BoundedQueue
from andon.web.bindings.packets import Packet
from andon.web.live.frames import MAX_MESSAGE_BYTES
from andon.web.live.tally import LiveTally
from andon.web.transport.asgi import Receive, Scope, Send

NAMESPACE = "/"


class EngineServer(engineio.AsyncServer):  # type: ignore[misc]
    """Engine.IO with bounded outbound queues."""

    def create_queue(self, *_: object, **__: object) -> BoundedQueue:
        return BoundedQueue()


class LiveServer(socketio.AsyncServer):  # type: ignore[misc]
    """Reports the start and end of every connection that had a real handshake."""

    def __init__(
        self, tally: LiveTally, began: Callable[[str, Scope], None], ended: Callable[[str], None]
    ) -> None:
        self._tally, self._began, self._ended = tally, began, ended
        # One logger for both libraries, without a handler of its own: all goes through the quota.
        log = logging.getLogger("andon.web.socketio")
        log.setLevel(logging.ERROR)
        super().__init__(
            async_mode="asgi",
            serializer=Packet,
            logger=log,
            engineio_logger=log,
            namespaces=[NAMESPACE],
            cors_allowed_origins=[],  # the gate checks origins; no CORS header is sent
            max_http_buffer_size=MAX_MESSAGE_BYTES,
            async_handlers=False,  # a client's requests are handled one at a time
            http_compression=False,
        )

    # Called by the library.

    def _engineio_server_class(self) -> type[EngineServer]:
        return EngineServer

    async def _handle_eio_connect(self, eio_sid: str, environ: dict[str, Any]) -> None:
        """Called only for a handshake: no client packet leads here."""
        await super()._handle_eio_connect(eio_sid, environ)
        self._began(eio_sid, environ["asgi.scope"])

    async def _handle_eio_disconnect(self, eio_sid: str, reason: str) -> None:
        try:
            await super()._handle_eio_disconnect(eio_sid, reason)
        finally:
            self._ended(eio_sid)

    async def _handle_eio_message(self, eio_sid: str, data: Any) -> None:
        """Handles a message; ignores ended connections, which would join the rooms again."""
        if eio_sid in self.environ:
            await self._tally.tried("a packet", super()._handle_eio_message(eio_sid, data))

    # Called by the rest of the server.

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket; its input was checked before."""
        await self.handle_request(scope, receive, send)

    def connection_of(self, sid: str) -> str | None:
        """The connection of a client in the namespace."""
        found: str | None = self.manager.eio_sid_from_sid(sid, NAMESPACE)
        return found

    def uses_websocket(self, connection: str) -> bool:
        with suppress(KeyError):
            return bool(self.eio.transport(connection) == "websocket")
        return False

    def slow(self) -> list[str]:
        """The connections that read too slowly."""
        return [name for name, one in list(self.eio.sockets.items()) if one.queue.overrun]

    async def end(self, connection: str) -> None:
        """Close one connection, notify its client if possible, and release what waits for it."""
        socket = self.eio.sockets.pop(connection, None)
        if socket is None:
            return
        try:
            await socket.close(wait=False)
        finally:
            socket.queue.put_nowait(None)
