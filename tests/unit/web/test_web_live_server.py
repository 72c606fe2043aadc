"""What our server takes from the Socket.IO library: a test for each thing that it relies on."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import socketio

from andon.web.bindings.live_server import OUTBOX_PACKETS, BoundedQueue, LiveServer
from andon.web.live.requests import VISITOR
from tests.support import snapshots as drawn
from tests.support.live_parts import WebSocket, browser, handshake, live_of, without_routes
from tests.support.web_parts import Parts

__all__ = ["without_routes"]
pytestmark = pytest.mark.usefixtures("without_routes")

Script = Callable[[Parts, LiveServer], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path) -> Any:
    """Runs a script against an application; its server is the real one."""
    parts = Parts(tmp_path, [drawn.farm()])

    def played(script: Script) -> None:
        asyncio.run(script(parts, live_of(parts)._server))

    yield played
    parts.close()


def test_the_library_calls_a_handler_named_connect_for_an_event_of_that_name() -> None:
    """Why reserved names are refused before it sees them."""
    server, called = socketio.AsyncServer(async_mode="asgi"), list[object]()

    async def connect(_sid: str, environ: object, _auth: object = None) -> None:
        called.append(environ)

    async def forged() -> None:
        server.on("connect", connect)
        await server._trigger_event("connect", "/", "sid", {"forged": True})

    asyncio.run(forged())
    assert called == [{"forged": True}]


def test_an_outbox_of_ours_is_what_each_connection_gets(play: Any) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        client = WebSocket(parts.app)
        name = await client.opened()
        assert isinstance(server.eio.sockets[name].queue, BoundedQueue)
        client.hang_up()
        await client.closed()

    play(script)


def test_a_handshake_is_reported_with_the_scope_that_was_made_for_it(play: Any) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        client = WebSocket(parts.app)
        name = await client.opened()
        scope = server.environ[name]["asgi.scope"]
        assert scope[VISITOR] is live_of(parts)._visitors.of(name)
        assert {header for header, _ in scope["headers"]} == {b"connection", b"upgrade"}
        client.hang_up()
        await client.closed()

    play(script)


@pytest.mark.parametrize("how", ["1", "41", "hang up", "end"])
def test_the_end_of_a_connection_is_reported_however_it_ends(play: Any, how: str) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        client = WebSocket(parts.app)
        await client.joined()
        (name,) = server.eio.sockets
        if how == "hang up":
            client.hang_up()
        elif how == "end":
            await server.end(name)
        else:
            client.send(how)
        await client.closed()
        live = live_of(parts)
        assert len(live._visitors) == 0
        assert live._clients == {}
        assert server.manager.rooms == {}
        assert server.environ == {}
        assert server.eio.sockets == {}

    play(script)


def test_a_packet_after_the_end_reaches_no_handler_and_no_room(play: Any) -> None:
    async def script(_parts: Parts, server: LiveServer) -> None:
        await server._handle_eio_message("gone", "0")
        assert server.manager.rooms == {}

    play(script)


def test_a_client_in_the_namespace_is_traced_to_its_connection(play: Any) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        client = WebSocket(parts.app)
        await client.joined()
        ((sid, found),) = live_of(parts)._clients.items()
        assert server.connection_of(sid) == found.visitor.connection
        assert server.connection_of("nonsense") is None
        client.hang_up()
        await client.closed()

    play(script)


def test_the_transport_of_a_connection_is_known(play: Any) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        client = WebSocket(parts.app)
        assert server.uses_websocket(await client.opened())
        async with browser(parts.app) as polling:
            name = (await handshake(polling)).partition("sid=")[2]
            assert not server.uses_websocket(name)
        assert not server.uses_websocket("nonsense")
        client.hang_up()
        await client.closed()

    play(script)


def test_whoever_overruns_the_outbox_is_slow(play: Any) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        async with browser(parts.app) as polling:
            name = (await handshake(polling)).partition("sid=")[2]
            assert server.slow() == []
            for _ in range(OUTBOX_PACKETS + 1):
                await server.eio.send(name, "x")
            assert server.slow() == [name]
            await server.end(name)
            assert server.slow() == []

    play(script)


def test_the_librarys_messages_go_through_our_quota(play: Any) -> None:
    async def script(_parts: Parts, server: LiveServer) -> None:
        assert server.logger is server.eio.logger
        assert server.logger.level == logging.ERROR
        assert server.logger.handlers == []
        assert server.logger.propagate

    play(script)


def test_one_namespace_alone_can_be_joined(play: Any) -> None:
    async def script(parts: Parts, server: LiveServer) -> None:
        client = WebSocket(parts.app)
        name = await client.opened()
        await server._handle_connect(name, "/admin", None)  # what our grammar keeps from it
        await client.heard("44/admin,")
        assert server.manager.rooms == {}
        client.hang_up()
        await client.closed()

    play(script)
