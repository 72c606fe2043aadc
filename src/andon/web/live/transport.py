"""The entry to live events: handshakes, polls and WebSockets, checked before the library.

The library gets a scope made here and only packets that `frames` accepts. What a connection proved
stays in the table of visitors, where no packet can change it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from andon.access.gate import Refusal, ShownKey
from andon.access.server_proof import token_hash
from andon.web.answers.problems import UNEXPECTED, ProblemFormatter
from andon.web.bindings.live_server import ClientSocket, LiveServer
from andon.web.live.frames import LiveTally, check_body, check_frame
from andon.web.live.requests import (
    WEBSOCKET,
    LiveRequest,
    parse_query,
    replayed,
    request_scope,
    turn_away,
    until_gone,
    websocket_scope,
)
from andon.web.live.visitors import Visitor, Visitors
from andon.web.transport.auth import TRUSTED, caller_of, shown_key
from andon.web.transport.headers import (
    Message,
    Receive,
    Scope,
    Send,
    read_body,
    until_disconnected,
)
from andon.web.transport.keys import Keys

SILENT_SECONDS = 10.0
"""The timeout for joining after a handshake, for the next poll, and for an upgrade."""
RETRY_SECONDS = 10.0

BAD_QUERY = Refusal(400, "not a Socket.IO request", "use EIO=4 and transport=polling or websocket")
BAD_METHOD = Refusal(405, "live events accept only GET and POST", "use a Socket.IO client")
BAD_PACKET = Refusal(400, "malformed Socket.IO packet", "use a Socket.IO client")
UNKNOWN = Refusal(400, "unknown live connection", "connect again")
OVERLAP = Refusal(400, "this live connection is already in use", "poll once at a time")
ENDED = Refusal(401, "the session has ended", "run: andon open")
FULL = Refusal(503, "too many live clients", "send the token, or try again later")
FAILED = Refusal(500, *UNEXPECTED)


class Transport:
    """An ASGI application for the one path of live events."""

    def __init__(
        self, server: LiveServer, visitors: Visitors, keys: Keys, tally: LiveTally
    ) -> None:
        self._server, self._visitors, self._keys, self._tally = server, visitors, keys, tally
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[bool]] = set()
        keys.listen(self._key_ended)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        request = parse_query(scope)
        if request is None:
            await turn_away(scope, receive, send, BAD_QUERY)
        elif request.transport == WEBSOCKET:
            await self._websocket(request, scope, receive, send)
        else:
            tracked = ProblemFormatter(send)
            work = until_gone(self._polling(request, scope, receive, tracked))
            if not await self._tally.tried("a request", work) and not tracked.begun:
                await turn_away(scope, receive, send, FAILED)

    # For the other modules of live events.

    async def end(self, visitor: Visitor) -> None:
        """End a connection, whatever its transport and state."""
        self._visitors.leave(visitor)
        if visitor.connection is not None:
            await self._server.end(visitor.connection)
        if visitor.line is not None:
            visitor.line.cut()

    def ended(self, connection: str) -> None:
        """Ignores a connection from now on, because the library has closed it."""
        visitor = self._visitors.of(connection)
        if visitor is not None:
            self._visitors.leave(visitor)
            self.start(self.end(visitor))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a separate task."""
        task = asyncio.ensure_future(self._tally.tried("work for a client", work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tie(self, visitor: Visitor, secret: str) -> bool:
        """Let the connection end with this key: a session or a named token; False if it has already
        ended. The server's own token does not end."""
        found = self._keys.session(secret)
        if found is None:
            visitor.keys.add(token_hash(secret))
            return self._keys.grade(secret) in (ShownKey.NAMED, ShownKey.TOKEN)
        name, seconds = found
        visitor.keys.add(name)
        loop = asyncio.get_running_loop()
        expiry = loop.call_later(max(0.0, seconds), lambda: self.start(self.end(visitor)))
        visitor.expiries.append(expiry)
        return self._keys.session(secret) is not None  # it may have ended meanwhile

    # Handshakes.

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> Visitor | None:
        trusted, who = bool(scope.get(TRUSTED)), caller_of(scope)
        visitor = self._visitors.admit((scope.get("client") or (None,))[0], who)
        if visitor is None:
            self._tally.refuse()
            await turn_away(scope, receive, send, FULL, wait_seconds=RETRY_SECONDS)
            return None
        secret = shown_key(scope["headers"])  # none if a proxy names the person
        if trusted and secret is not None and not self.tie(visitor, secret):
            self._visitors.leave(visitor)
            await turn_away(scope, receive, send, ENDED)
            return None
        self._expect(visitor)
        return visitor

    def _expect(self, visitor: Visitor) -> None:
        if visitor.due is not None:
            visitor.due.cancel()
        visitor.due = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._due, visitor)

    def _due(self, visitor: Visitor) -> None:
        visitor.due = None
        if not visitor.joined or not (visitor.polls or visitor.line):
            self.start(self.end(visitor))

    # Polling.

    async def _polling(
        self, request: LiveRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        visitor = self._visitors.of(request.name)
        if scope["method"] not in ("GET", "POST"):
            await turn_away(scope, receive, send, BAD_METHOD)
        elif request.name is None and scope["method"] == "GET":
            await self._open(request, scope, receive, send)
        elif visitor is None:
            await turn_away(scope, receive, send, UNKNOWN)
        elif scope["method"] == "POST":
            await self._post(request, visitor, scope, receive, send)
        else:
            await self._poll(request, visitor, scope, receive, send)

    async def _open(self, request: LiveRequest, scope: Scope, receive: Receive, send: Send) -> None:
        visitor = await self._admitted(scope, receive, send)
        if visitor is None:
            return
        try:
            await self._server.answer(request_scope(request, "GET", visitor), replayed(b""), send)
        finally:
            if visitor.connection is None:
                self._visitors.leave(visitor)

    async def _post(
        self, request: LiveRequest, visitor: Visitor, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = await read_body(receive)
        if body is None:
            return
        wrong = check_body(body)
        for one in wrong:
            self._tally.ignore(one)
        if wrong:
            await turn_away(scope, receive, send, BAD_PACKET)
        elif visitor.connection is None or self._server.uses_websocket(visitor.connection):
            await turn_away(scope, receive, send, OVERLAP)
        else:
            await self._server.answer(
                request_scope(request, "POST", visitor, body), replayed(body), send
            )

    async def _poll(
        self, request: LiveRequest, visitor: Visitor, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answers one poll at a time; a second one ends the connection, as in Engine.IO."""
        if visitor.polls:
            await self.end(visitor)
        if visitor.gone or self._server.uses_websocket(request.name or ""):
            await turn_away(scope, receive, send, OVERLAP)
            return
        visitor.polls = True
        try:
            await self._answered(request, visitor, receive, send)
        finally:
            visitor.polls = False
        if visitor.joined and self._visitors.of(request.name) is visitor:
            self._expect(visitor)

    async def _answered(
        self, request: LiveRequest, visitor: Visitor, receive: Receive, send: Send
    ) -> None:
        """Waits until there is something to send; a client that disconnects is removed at once."""
        made = request_scope(request, "GET", visitor)
        answer = asyncio.ensure_future(self._server.answer(made, replayed(b""), send))
        leaving = asyncio.ensure_future(until_disconnected(receive))
        try:
            done, _ = await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if answer not in done:
                await self.end(visitor)
            await answer
        finally:
            leaving.cancel()
            answer.cancel()

    # WebSockets.

    async def _websocket(
        self, request: LiveRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if request.name is None:
            visitor = await self._admitted(scope, receive, send)
            if visitor is not None:
                await self._carry(request, visitor, receive, send)
            return
        visitor = self._visitors.of(request.name)
        if visitor is None or visitor.line is not None:
            await turn_away(scope, receive, send, UNKNOWN if visitor is None else OVERLAP)
            return
        deadline = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._upgrade_due, visitor)
        try:
            await self._carry(request, visitor, receive, send)
        finally:
            deadline.cancel()

    def _upgrade_due(self, visitor: Visitor) -> None:
        if not self._server.uses_websocket(visitor.connection or ""):
            self.start(self.end(visitor))

    async def _carry(
        self, request: LiveRequest, visitor: Visitor, receive: Receive, send: Send
    ) -> None:
        """Serve a WebSocket until it ends; a failed upgrade ends the connection too, because the
        library would return nothing to its polls from then on."""
        made = websocket_scope(request, visitor)
        line = visitor.line = ClientSocket(
            self._server.answer(made, self._checked(visitor, receive), send)
        )
        try:
            await self._tally.tried("a WebSocket", until_gone(line.held()))
        finally:
            visitor.line = None
            await self.end(visitor)

    def _checked(self, visitor: Visitor, receive: Receive) -> Receive:
        """Returns the client's input without malformed frames and without frames after its end."""

        async def checked() -> Message:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                if visitor.gone:
                    return {"type": "websocket.disconnect", "code": 1000}
                wrong = check_frame(message.get("text"))
                if wrong is None:
                    return message
                self._tally.ignore(wrong)
                await asyncio.sleep(0)  # a flood of them must not delay other clients

        return checked

    # Keys.

    def _key_ended(self, name: bytes) -> None:
        """Ends the connections of a key that ended; called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_key, name)

    def _end_key(self, name: bytes) -> None:
        for visitor in self._visitors.of_key(name):
            self.start(self.end(visitor))
