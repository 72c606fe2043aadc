"""The server's HTTP connections: each has a deadline and a seat, and no error is plain text.

An unfinished request or an unread response costs a seat and memory, so both have a deadline.
"""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from andon.access.gate import FULL, FULL_SECONDS, Refusal
from andon.web.answers.problems import problem
from andon.web.bindings.accepting import OWED_SECONDS
from andon.web.transport.places import SEAT, Seat
from andon.web.transport.turns import RequestTurns

STALLED_SECONDS = 60.0

BAD_REQUEST = Refusal(400, "malformed HTTP request", "is the URL http or https?")
BAD_UPGRADE = Refusal(
    400, "malformed WebSocket handshake", "use version 13 and a 16-byte key in base64"
)


class Dates:
    """The Date header, updated with every request so that no timer has to wake the server."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._second = clock, 0

    def update(self, state: ServerState) -> None:
        second = int(self._clock())
        if second != self._second:
            self._second = second
            state.default_headers = [(b"date", formatdate(second, usegmt=True).encode())]


class SharedState:
    """What the connections of one server share."""

    def __init__(
        self,
        turns: RequestTurns | None = None,
        owed_seconds: float = OWED_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.dates, self.turns = Dates(clock), turns or RequestTurns()
        self.owed_seconds, self.stalled_seconds = owed_seconds, stalled_seconds


class Connection(H11Protocol):
    """uvicorn's connection, with deadlines and our error format."""

    def __init__(
        self,
        seat: Seat,
        shared: SharedState,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
    ) -> None:
        super().__init__(config, server_state, {**app_state, SEAT: seat})
        self._seat, self._shared = seat, shared
        self._held = bytearray()
        self._owed: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._seat.begin(self._give_way)
        self._owes(self._seat.arrived_at + self._shared.owed_seconds)

    def data_received(self, data: bytes) -> None:
        """Takes input; an anonymous client's next request waits for its turn, a body does not."""
        if self._held:
            self._held += data
        elif self._goes_first(data):
            self._take(data)
        else:
            self._held += data
            self.flow.pause_reading()
            self._shared.turns.wait(self._take_held)

    def _goes_first(self, data: bytes) -> bool:
        has_turn, self._seat.has_turn = self._seat.has_turn, False
        if has_turn or self._seat.trusted or self.conn.their_state is h11.SEND_BODY:
            return True
        return self._shared.turns.is_first(data)

    def _take_held(self) -> None:
        data, self._held = bytes(self._held), bytearray()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._shared.dates.update(self.server_state)
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            return  # a WebSocket now
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._owes(self.loop.time() + self._shared.owed_seconds)
        else:
            self._owes_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owes_nothing()
        self._moves()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Sets a deadline, because the client does not read and the socket's buffer is full."""
        super().pause_writing()
        self._stall = self._stall or self.loop.call_later(
            self._shared.stalled_seconds, self._give_up
        )
        self._seat.stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._moves()

    # Called by uvicorn.

    def send_400_response(self, msg: str) -> None:
        self._answer(BAD_REQUEST)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._owes_nothing()
        if not _is_handshake(dict(self.headers), event.method):
            self._answer(BAD_UPGRADE)
        else:
            super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        self._seat.rest()
        super().on_response_complete()

    # Deadlines and refusals.

    def _owes(self, due: float) -> None:
        if self._owed is None and not self.transport.is_closing():
            self._owed = self.loop.call_at(due, self._give_up)

    def _owes_nothing(self) -> None:
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None

    def _moves(self) -> None:
        self._seat.flow()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _give_up(self) -> None:
        self._owes_nothing()
        self._moves()
        self.transport.abort()

    def _give_way(self) -> None:
        """Ends the connection because all are in use; a begun request gets the reason."""
        begun = self._held or self.conn.their_state is not h11.IDLE or self.conn.trailing_data[0]
        if begun and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._owes_nothing()
            self._answer(FULL)
        else:
            self._give_up()

    def _answer(self, refusal: Refusal) -> None:
        """Sends a refusal if no response has begun; otherwise only closes the connection."""
        wait = [(b"retry-after", b"%d" % (FULL_SECONDS + 1))] if refusal is FULL else []
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
                    *wait,
                ],
            )
            for part in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
        self.transport.close()


def _is_handshake(headers: dict[bytes, bytes], method: bytes) -> bool:
    key = headers.get(b"sec-websocket-key", b"")
    return method == b"GET" and headers.get(b"sec-websocket-version") == b"13" and len(key) == 24
