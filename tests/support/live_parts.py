"""Live events in this process: a WebSocket and a poll without a network, on one event loop."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon.web.live.events import Live
from andon.web.transport.headers import App, Message, Receive, Scope, Send
from tests.support import snapshots as drawn
from tests.support.replaced import answers
from tests.support.web_parts import Parts

PATH = "/socket.io/"
POLLING = f"{PATH}?EIO=4&transport=polling"
PATIENCE_SECONDS = 60.0
Script = Callable[[Parts], Coroutine[Any, Any, None]]
Play = Callable[[Script], None]


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body"})


@pytest.fixture
def without_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live events alone: to build the routes of REST takes longer than these tests."""
    answers(monkeypatch, "andon.web.app", "_api", _nothing)


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Runs a script against an application."""
    parts = Parts(tmp_path, [drawn.farm()])

    def played(script: Script) -> None:
        asyncio.run(script(parts))

    yield played
    parts.close()


def health(parts: Parts) -> Any:
    return live_of(parts).health()


def live_of(parts: Parts) -> Live:
    found = parts.shop.parts["live"]
    assert isinstance(found, Live)
    return found


def _headers(more: Mapping[str, str] | None) -> list[tuple[bytes, bytes]]:
    named = {"host": "localhost", **(more or {})}
    return [(name.lower().encode(), value.encode()) for name, value in named.items()]


class WebSocket:
    """A raw WebSocket at the application."""

    def __init__(
        self, app: App, sid: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._out: asyncio.Queue[Message] = asyncio.Queue()
        query = "EIO=4&transport=websocket" + (f"&sid={sid}" if sid else "")
        scope: Scope = {
            "type": "websocket", "path": PATH, "query_string": query.encode(),
            "headers": _headers(headers), "client": ("127.0.0.1", 1),
            "extensions": {"websocket.http.response": {}},
        }  # fmt: skip
        self._in.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.ensure_future(app(scope, self._in.get, self._out.put))

    async def next(self) -> Message:
        return await asyncio.wait_for(self._out.get(), PATIENCE_SECONDS)

    def send(self, text: str) -> None:
        self._in.put_nowait({"type": "websocket.receive", "text": text})

    def send_bytes(self, data: bytes) -> None:
        self._in.put_nowait({"type": "websocket.receive", "bytes": data})

    async def heard(self, beginning: str) -> str:
        """The next packet that begins so."""
        while True:
            message = await self.next()
            assert message["type"] in ("websocket.accept", "websocket.send"), message
            if (message.get("text") or "").startswith(beginning):
                return str(message["text"])

    @property
    def is_drained(self) -> bool:
        """Whether everything that was sent has been heard."""
        return self._out.empty()

    async def opened(self) -> str:
        """The name that the server gave the connection."""
        return str(json.loads((await self.heard("0{"))[1:])["sid"])

    async def joined(self, auth: str = "") -> None:
        await self.opened()
        self.send(f"40{auth}")
        await self.heard("40{")

    async def closed(self) -> None:
        """Until the application has done with it."""
        await asyncio.wait_for(self.task, PATIENCE_SECONDS)

    def hang_up(self) -> None:
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1001})


def browser(app: App) -> httpx.AsyncClient:
    """Polls from loopback."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("127.0.0.1", 1))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None)


async def handshake(client: httpx.AsyncClient, headers: Mapping[str, str] | None = None) -> str:
    """A polling session's path."""
    answer = await client.get(POLLING, headers=dict(headers or {}))
    assert answer.status_code == 200, answer.text
    return f"{POLLING}&sid={json.loads(answer.text[1:])['sid']}"


async def until(condition: Any) -> None:
    """Without a time of its own: the test's limit ends it."""
    while not condition():
        await asyncio.sleep(0.001)
