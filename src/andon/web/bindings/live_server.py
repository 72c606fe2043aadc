"""python-socketio's server as used here, with everything that relies on its internals.

tests/unit/web/test_web_live_server.py has a test for each of these bindings.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import engineio
import socketio
from socketio import packet

from andon.web.live.frames import MAX_MESSAGE_BYTES, LiveTally
from andon.web.transport.headers import Receive, Scope, Send

# Socket.IO packets for payloads that are encoded as JSON already.


class Prepared(str):
    """One JSON value as text, sent unchanged."""

    __slots__ = ()


class Packet(packet.Packet):  # type: ignore[misc]
    """The library's packet, without its search for bytes and its encoding where both are done."""

    uses_binary_events = False  # no payload holds bytes, and the search would visit every value

    def encode(self) -> Any:
        data = self.data
        if self.packet_type != packet.EVENT or not isinstance(data[-1], Prepared):
            return super().encode()
        return "".join((str(packet.EVENT), "[", json.dumps(data[0]), ",", data[-1], "]"))


# Keeps one slow client from delaying the others.

OUTBOX_PACKETS = 32
"""About half a minute at one snapshot a second."""
AGAIN_SECONDS = (0.2, 1.0)


class BoundedQueue(asyncio.Queue[Any]):
    """A client's outbound queue with a limit; the library's has none.

    Putting never waits: what does not fit is dropped and marks the client, which is then closed.
    """

    def __init__(self, *_: object) -> None:
        super().__init__()
        self.overrun = False

    async def put(self, item: Any) -> None:
        if item is not None and self.qsize() >= OUTBOX_PACKETS:
            self.overrun = True
            return
        await super().put(item)


class ClientSocket:
    """One WebSocket, which can be closed even if its client has stopped reading."""

    def __init__(self, held: Awaitable[None]) -> None:
        self._task = asyncio.ensure_future(held)
        self._is_cut = False

    async def held(self) -> None:
        """Wait until the connection ends or is cut."""
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._is_cut:
                raise

    def cut(self) -> None:
        """Cancels the connection repeatedly: the library takes the first cancellation as a
        disconnect and then waits for a stuck writer."""
        self._is_cut = True
        self._task.cancel()
        loop = asyncio.get_running_loop()
        for seconds in AGAIN_SECONDS:
            loop.call_later(seconds, self._cancel_again)

    def _cancel_again(self) -> None:
        if not self._task.done():
            self._task.cancel()


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
