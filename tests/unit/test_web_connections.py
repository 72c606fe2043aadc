"""Connections: each has its time and its place, and no error is plain text."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from andon.web import connections
from andon.web.asgi import Receive, Scope, Send
from andon.web.connections import Connection, Places, most_connections
from andon.web.problems import Shaped

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class App:
    """Answers when it is told to; a large answer is a megabyte."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.size = 2

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"k" * self.size})


@asynccontextmanager
async def listening(places: Places, app: App) -> AsyncIterator[int]:
    """The real protocol on a real port."""
    config, state = uvicorn.Config(app, ws="none", log_level="critical"), ServerState()
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: places.connection(config, state, {}), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for one in list(state.connections):
            one.transport.abort()


async def ended(reader: asyncio.StreamReader) -> None:
    """The connection is closed, one way or the other, and nothing was said."""
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


async def told(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Status and body of what comes until the end."""
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize(
    "sent",
    [b"garbage\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 70_000],
)
def test_what_is_no_request_is_told_in_the_one_shape(sent: bytes) -> None:
    async def play() -> None:
        async with listening(Places(), App()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            status, said = await told(reader)
            assert status == 400
            assert said["error"]["kind"] == "invalid"
            assert said["error"]["hint"]
            writer.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HT", GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\nhalf")]
)
def test_whoever_owes_a_request_too_long_is_cut_off(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "OWED_SECONDS", 0.05)
    places = Places()

    async def play() -> None:
        async with listening(places, App()) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            await ended(reader)
            writer.close()

    asyncio.run(play())
    assert not places.owing


def test_every_answer_carries_the_date_of_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    at = [784111777.2]
    monkeypatch.setattr("andon.web.connections.time.time", lambda: at[0])
    app = App()
    app.may_answer.set()

    async def play() -> list[bytes]:
        dates = []
        async with listening(Places(), app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for seconds in (0.0, 0.5, 1.0):
                at[0] += seconds
                writer.write(GET)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"0\r\n\r\n")
                dates += [line for line in head.split(b"\r\n") if line.startswith(b"date:")]
            writer.close()
        return dates

    assert asyncio.run(play()) == [
        b"date: Sun, 06 Nov 1994 08:49:37 GMT",
        b"date: Sun, 06 Nov 1994 08:49:37 GMT",
        b"date: Sun, 06 Nov 1994 08:49:38 GMT",
    ]


def test_a_request_at_work_owes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OWED_SECONDS", 0.05)

    async def play() -> None:
        app = App()
        async with listening(Places(), app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await app.asked.wait()
            later, silent = await asyncio.open_connection("127.0.0.1", port)
            await ended(later)  # which came after it, and whose time is up
            silent.close()
            app.may_answer.set()
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(play())


def test_where_all_places_are_taken_the_oldest_silent_one_goes() -> None:
    async def play() -> None:
        app, places = App(), Places(most=3)
        app.may_answer.set()
        async with listening(places, app) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await ended(silent[0][0])
            assert len(places.owing) == 2
            for _, one in [*silent, (reader, writer)]:
                one.close()

    asyncio.run(play())


def test_where_all_places_are_at_work_the_next_is_told_to_wait() -> None:
    async def play() -> None:
        app = App()
        async with listening(Places(most=1), app) as port:
            _, busy = await asyncio.open_connection("127.0.0.1", port)
            busy.write(GET)
            await app.asked.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            status, said = await told(reader)
            assert (status, said["error"]["kind"]) == (503, "unavailable")
            for one in (busy, writer):
                one.close()

    asyncio.run(play())


def test_whoever_does_not_take_the_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.05)

    async def play() -> None:
        app, places = App(), Places()
        app.size = 64_000_000  # more than any system buffers
        app.may_answer.set()
        async with listening(places, app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(GET)
            while not places.stalled:
                await asyncio.sleep(0)
            while places.stalled:
                await asyncio.sleep(0.01)
            writer.close()
            assert reader is not None

    asyncio.run(play())


def test_of_many_that_do_not_take_their_answers_the_oldest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MOST_STALLED", 1)

    async def play() -> None:
        app, places = App(), Places()
        app.size = 64_000_000
        app.may_answer.set()
        async with listening(places, app) as port:
            first: Connection | None = None
            for _ in range(2):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(GET)
                while not places.stalled or next(iter(places.stalled)) is first:
                    await asyncio.sleep(0)
                found = next(iter(places.stalled))
                assert first is None or first.transport.is_closing()
                first = found
                writer.close()

    asyncio.run(play())


def test_the_places_leave_files_for_the_rest() -> None:
    assert 16 <= most_connections() <= connections.MOST_CONNECTIONS


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (b"text/plain", b'"Invalid session"', "Invalid session"),
        (b"text/html", b"", "Not Found"),
        (None, b"x" * 9000, "x" * 400),
    ],
)
def test_a_librarys_plain_error_gets_our_shape(
    kind: bytes | None, body: bytes, reason: str
) -> None:
    out: list[Any] = []

    async def send(message: Any) -> None:
        out.append(message)

    async def play() -> None:
        headers = [] if kind is None else [(b"Content-Type", kind)]
        start = {"type": "http.response.start", "status": 404, "headers": headers}
        shaped = Shaped(send)
        await shaped(start)
        half = len(body) // 2
        await shaped({"type": "http.response.body", "body": body[:half], "more_body": True})
        await shaped({"type": "http.response.body", "body": body[half:]})

    asyncio.run(play())
    start, sent = out
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert len(start["headers"]) == 2
    assert json.loads(sent["body"])["error"]["reason"] == reason
