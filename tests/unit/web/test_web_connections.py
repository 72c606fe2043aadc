"""Connections: each has its time and its seat, and no error is plain text."""

import asyncio
import errno
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from andon.access.quotas import ConnectionUse, Quotas
from andon.web.answers.problems import ProblemFormatter
from andon.web.bindings.accepting import Acceptor
from andon.web.bindings.connections import Connection, SharedState
from andon.web.transport import turns
from andon.web.transport.headers import Receive, Scope, Send
from andon.web.transport.places import SEAT, Places, Seat
from andon.web.transport.turns import RequestTurns

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class App:
    """Answers when it is told to, and only those that it may work for; large is a megabyte."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.size = 2

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seat: Seat = scope["state"][SEAT]
        headers = dict(scope["headers"])
        status = 200 if seat.work(b"authorization" in headers, scope["path"] == "/live") else 503
        if status == 200:
            self.asked.set()
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"k" * self.size})


@asynccontextmanager
async def listening(places: Places, app: App, **shared_by_all: Any) -> AsyncIterator[int]:
    """The real protocol on a real port."""
    config, state = uvicorn.Config(app, ws="none", log_level="critical"), ServerState()
    config.load()
    shared = SharedState(**shared_by_all)

    def connection(seat: Seat) -> Connection:
        return Connection(seat, shared, config, state, {})

    with socket.create_server(("127.0.0.1", 0)) as sock:
        acceptor = Acceptor(sock, places, connection, owed_seconds=shared.owed_seconds)
        yield sock.getsockname()[1]
        acceptor.close()
        for one in list(state.connections):
            one.transport.abort()
        while len(places):
            await asyncio.sleep(0)


async def until(places: Places, standing: ConnectionUse, count: int) -> None:
    while places.counts()[standing] != count:
        await asyncio.sleep(0)


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


OWED_SECONDS = 0.05  # whoever owes a request has a moment for it, instead of seconds


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HT", GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\nhalf")]
)
def test_whoever_owes_a_request_too_long_is_cut_off(
    begun: bytes,
) -> None:
    places = Places()

    async def play() -> None:
        async with listening(places, App(), owed_seconds=OWED_SECONDS) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            await ended(reader)
            writer.close()

    asyncio.run(play())
    assert not len(places)


def test_every_answer_carries_the_date_of_its_second() -> None:
    at = [784111777.2]
    app = App()
    app.may_answer.set()

    async def play() -> list[bytes]:
        dates = []
        async with listening(Places(), app, clock=lambda: at[0]) as port:
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


def test_a_request_at_work_owes_nothing() -> None:
    async def play() -> None:
        app = App()
        async with listening(Places(), app, owed_seconds=OWED_SECONDS) as port:
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
        app, places = App(), Places(Quotas(20))
        app.may_answer.set()
        async with listening(places, app) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            await until(places, ConnectionUse.SILENT, 20)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            await ended(silent[0][0])
            assert len(places) == 20
            for _, one in [*silent, (reader, writer)]:
                one.close()

    asyncio.run(play())


@pytest.mark.parametrize("path", [b"/", b"/live"])
def test_requests_of_strangers_leave_room_for_a_right_key(path: bytes) -> None:
    """Everybody comes from the same address, and all of the strangers' requests wait."""

    async def play() -> None:
        app, places = App(), Places(Quotas(20))
        async with listening(places, app) as port:
            open_ones = []
            for _ in range(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(GET.replace(b"GET /", b"GET " + path))
                open_ones.append((reader, writer))
            refused = {asyncio.ensure_future(reader.readline()): reader for reader, _ in open_ones}
            done, _ = await asyncio.wait(refused, return_when=asyncio.FIRST_COMPLETED)
            assert {one.result() for one in done} == {b"HTTP/1.1 503 Service Unavailable\r\n"}
            at_work = places.counts()[ConnectionUse.ANONYMOUS] + places.counts()[ConnectionUse.LIVE]
            assert at_work == (places.quotas.live if path == b"/live" else places.quotas.anonymous)
            app.may_answer.set()
            await asyncio.gather(*refused)
            for _, writer in open_ones:
                writer.close()

    asyncio.run(play())


def test_a_right_key_is_worked_for_when_all_strangers_wait() -> None:
    async def play() -> None:
        app, places = App(), Places(Quotas(20))
        async with listening(places, app) as port:
            strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(19)]
            for _, writer in strangers:
                writer.write(GET)
            await until(places, ConnectionUse.ANONYMOUS, places.quotas.anonymous)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET.replace(b"\r\n\r\n", b"\r\nAuthorization: x\r\n\r\n"))
            await until(places, ConnectionUse.OWNER, 1)
            app.may_answer.set()
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            for _, one in [*strangers, (reader, writer)]:
                one.close()

    asyncio.run(play())


def test_a_connection_that_was_answered_waits_as_those_who_have_not_asked() -> None:
    async def play() -> None:
        app, places = App(), Places()
        app.may_answer.set()
        async with listening(places, app) as port:
            for more, standing in (
                (b"", ConnectionUse.BEGUN),
                (b"Authorization: x\r\n", ConnectionUse.IDLE),
            ):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(GET.replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n"))
                await reader.readuntil(b"0\r\n\r\n")
                assert places.counts()[standing] == 1
                writer.close()

    asyncio.run(play())


def test_a_silent_connection_is_a_bare_socket() -> None:
    """Thousands of them cost a descriptor each: neither transport, protocol nor parser is made."""
    made: list[Seat] = []

    async def play() -> None:
        places = Places()
        with socket.create_server(("127.0.0.1", 0)) as sock:

            def connection(seat: Seat) -> asyncio.Protocol:
                made.append(seat)
                return asyncio.Protocol()

            acceptor = Acceptor(sock, places, connection)
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            await until(places, ConnectionUse.SILENT, 1)
            assert not made
            writer.write(b"G")
            await until(places, ConnectionUse.BEGUN, 1)
            writer.close()
            assert reader is not None
            await until(places, ConnectionUse.BEGUN, 0)
            acceptor.close()

    asyncio.run(play())
    assert len(made) == 1


def test_a_new_connection_that_gives_way_itself_is_closed() -> None:
    wrong: list[object] = []

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: wrong.append(what))
        places = Places(Quotas(16))
        for _ in range(16):
            places.move(places.arrive(lambda: None, 0.0), ConnectionUse.IDLE)
        with socket.create_server(("127.0.0.1", 0)) as sock:
            acceptor = Acceptor(sock, places, lambda _: asyncio.Protocol())
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            await asyncio.wait_for(ended(reader), 20)
            writer.close()
            acceptor.close()
        assert places.counts()[ConnectionUse.IDLE] == len(places) == 16

    asyncio.run(play())
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [GET[:-2], GET + GET[:20], b""],
)
def test_who_has_asked_and_gives_way_reads_why(sent: bytes) -> None:
    """The oldest unfinished request goes for a new connection; a silent one is only closed."""

    async def play() -> bytes:
        app, places = App(), Places(Quotas(16))
        app.may_answer.set()
        async with listening(places, app, owed_seconds=20.0 if sent else 0.5) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            await until(places, ConnectionUse.BEGUN if sent else ConnectionUse.SILENT, 1)
            others = []
            for _ in range(16):
                others.append(await asyncio.open_connection("127.0.0.1", port))
                others[-1][1].write(GET[:-2])
            found = await asyncio.wait_for(reader.read(), 20)
            for _, one in [*others, (reader, writer)]:
                one.close()
        return found

    said = asyncio.run(play()).rpartition(b"HTTP/1.1 ")[2]
    if not sent:
        assert said == b""
        return
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"503")
    assert b"retry-after: 11" in head.lower()
    assert json.loads(body)["error"]["kind"] == "unavailable"


@pytest.mark.parametrize("first", [b"", b"GET /healthz HTTP/1.1", b"right"])
def test_a_right_key_and_healthz_do_not_wait_for_their_turn(first: bytes) -> None:
    """A hundred requests are there before it; they are taken a few in each round."""
    taken: list[int] = []

    async def play() -> None:
        queue = RequestTurns(lambda key: key == "right")
        for number in range(100):
            queue.wait(lambda number=number: taken.append(number))  # type: ignore[misc]
        await asyncio.sleep(0)
        assert len(taken) == turns.AT_ONCE
        while len(taken) < 100:
            await asyncio.sleep(0)
        assert taken == list(range(100))
        head = GET.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer " + first + b"\r\n\r\n")
        assert queue.is_first(head) is (first == b"right")
        assert queue.is_first(first) is first.startswith(b"GET /healthz")

    asyncio.run(play())


def test_a_request_of_a_stranger_waits_and_is_answered() -> None:
    """On the same connection, too, and with what comes meanwhile."""
    app = App()
    app.may_answer.set()

    async def play() -> None:
        async with listening(Places(), app) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(3):
                writer.write(GET)
                assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.write(GET * 3)
            for _ in range(3):
                assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(play())


def test_short_files_are_told_once_and_accepting_goes_on_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The listening socket stays ready all the time: this must not become a spin."""
    tries: list[int] = []

    class Short(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            tries.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

    async def play() -> None:
        with Short() as sock:
            sock.bind(("127.0.0.1", 0))
            sock.listen()
            acceptor = Acceptor(sock, Places(), lambda _: asyncio.Protocol(), again_seconds=0.01)
            with socket.create_connection(sock.getsockname()):
                turns = 0
                while len(tries) < 3:
                    await asyncio.sleep(0)
                    turns += 1
            acceptor.close()
            assert turns > 3 * len(tries)

    with caplog.at_level(logging.ERROR, "andon.web"):
        asyncio.run(play())
    assert "Too many open files" in caplog.text


@pytest.mark.slow
def test_whoever_does_not_take_the_answer_is_cut_off() -> None:
    async def play() -> None:
        app, seats = App(), Places()
        app.size = 64_000_000  # more than any system buffers
        app.may_answer.set()
        async with listening(seats, app, stalled_seconds=0.05) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(GET)
            while not seats.stalled:
                await asyncio.sleep(0)
            while seats.stalled:
                await asyncio.sleep(0.01)
            writer.close()
            assert reader is not None

    asyncio.run(play())


@pytest.mark.slow
def test_of_many_that_do_not_take_their_answers_the_oldest_goes() -> None:
    async def play() -> None:
        app, seats = App(), Places(most_stalled=1)
        app.size = 64_000_000
        app.may_answer.set()
        async with listening(seats, app) as port:
            first: Seat | None = None
            writers = []
            for _ in range(2):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(GET)
                writers.append(writer)
                while not seats.stalled or next(iter(seats.stalled)) is first:
                    await asyncio.sleep(0)
                first = next(iter(seats.stalled))
            for writer in writers:
                writer.close()

    asyncio.run(asyncio.wait_for(play(), 60))


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
        shaped = ProblemFormatter(send)
        await shaped(start)
        half = len(body) // 2
        await shaped({"type": "http.response.body", "body": body[:half], "more_body": True})
        await shaped({"type": "http.response.body", "body": body[half:]})

    asyncio.run(play())
    start, sent = out
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert len(start["headers"]) == 2
    assert json.loads(sent["body"])["error"]["reason"] == reason


def test_nodes_that_were_let_in_leave_room_for_who_comes_next() -> None:
    places, ended = Places(Quotas(10)), list[str]()
    for _ in range(10):
        seat = places.arrive(lambda: ended.append("a node"), 0.0)
        seat.let_in()
        seat.rest()
    for _ in range(10):
        places.arrive(lambda: ended.append("who comes next"), 1.0)
    assert (ended, len(places)) == ([], 20)
    places.arrive(lambda: ended.append("one more"), 2.0)
    assert ended == ["who comes next"], "strangers give way to each other, and no node to them"


def test_nodes_beyond_their_own_places_count_as_others_with_a_key() -> None:
    places = Places(Quotas(20, nodes=2))
    seats = [places.arrive(lambda: None, 0.0) for _ in range(3)]
    for seat in seats:
        seat.let_in()
        seat.let_in()
    assert [seat.use for seat in seats] == [ConnectionUse.NODE] * 2 + [ConnectionUse.OWNER]
