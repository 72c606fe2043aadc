"""GET requests of callers whom the kernel identified, answered by the server's own application.

They come from the threads of a local socket, and go through the event loop as every request does:
gate, routes and rights are those of REST.
"""

import asyncio
from collections.abc import Sequence
from urllib.parse import unquote

from andon.access.local_rest import MOST_ANSWER_BYTES, RestAnswer
from andon.access.roles import Identity
from andon.errors import Unavailable
from andon.sampling.rules.server_snapshot import INTERVAL_HEADER
from andon.web.transport.headers import App, Message, Receive, Scope, Send, texts

KNOWN = "andon.known"
"""The key in an ASGI scope for a caller whom the kernel identified. No client can set it: the
scope of a request that comes over the network is made by the HTTP server."""
ANSWER_SECONDS = 10.0
_LOOPBACK = ("127.0.0.1", 0)


class LocalCalls:
    """The application, which can also be called from other threads once it runs."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self._loop = asyncio.get_running_loop()
        await self._app(scope, receive, send)

    def get(
        self, who: Identity | None, paths: Sequence[str], seconds: float = ANSWER_SECONDS
    ) -> list[RestAnswer]:
        """Returns the answers, of all or none; waits for them. None is a caller without a key.

        Raises Unavailable while the server does not run and for more than an answer may have, and
        TimeoutError."""
        if self._loop is None:
            raise Unavailable("the server does not run yet")
        answers = self._answers(who, paths, seconds)
        try:
            found = asyncio.run_coroutine_threadsafe(answers, self._loop)
        except RuntimeError as ended:
            answers.close()
            raise Unavailable("the server has ended") from ended
        return found.result(seconds + 1.0)  # it may be stuck, or end meanwhile

    async def _answers(
        self, who: Identity | None, paths: Sequence[str], seconds: float
    ) -> list[RestAnswer]:
        found, size = list[RestAnswer](), 0
        async with asyncio.timeout(seconds):
            for path in paths:
                found.append(await self._answer(who, path))
                size += len(found[-1].body)
                if size > MOST_ANSWER_BYTES:
                    raise Unavailable("the answers are too large together")
        return found

    async def _answer(self, who: Identity | None, path: str) -> RestAnswer:
        found = _Answer()
        await self._app(_scope(who, path), found.receive, found.send)
        return RestAnswer(found.status, b"".join(found.pieces), found.interval)


class _Answer:
    """Receives one answer; the request has no body, and its client stays."""

    def __init__(self) -> None:
        self.status, self.interval = 503, ""
        self.pieces = list[bytes]()
        self._received = False

    async def receive(self) -> Message:
        if self._received:
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        self._received = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            paced = texts(message.get("headers", []), INTERVAL_HEADER.encode())
            self.interval = paced[0] if paced else ""
        elif message["type"] == "http.response.body":
            self.pieces.append(message.get("body", b""))


def _scope(who: Identity | None, path: str) -> Scope:
    place, _, query = path.partition("?")
    known = {} if who is None else {KNOWN: who}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(place),
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost")],
        "client": _LOOPBACK,
        "server": _LOOPBACK,
        **known,
    }
