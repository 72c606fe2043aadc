"""The server sleeps until something happens, and a signal is something."""

import asyncio
import gc
import signal
import socket

import pytest
import uvicorn

from andon.web.bindings import quiet_server
from andon.web.transport.headers import Receive, Scope, Send

PATIENCE_SECONDS = 60.0


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that is never called."""


def started(ready: list[str]) -> quiet_server.QuietServer:
    config = uvicorn.Config(nothing, lifespan="off", log_level="warning")
    return quiet_server.QuietServer(config, lambda: ready.append("ready"))


@pytest.mark.slow
def test_a_signal_ends_it_at_once_although_it_never_looks() -> None:
    ready: list[str] = []
    frozen = gc.get_freeze_count()

    async def run() -> None:
        server = started(ready)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server._serve([listening]))
            while not ready:
                await asyncio.sleep(0)
            server.handle_exit(signal.SIGTERM, None)
            await asyncio.wait_for(serving, PATIENCE_SECONDS)

    asyncio.run(run())
    assert ready == ["ready"]
    assert gc.get_freeze_count() > frozen, "what exists at the start is not looked at again"


def test_a_signal_before_it_serves_is_not_forgotten() -> None:
    async def run() -> None:
        server = started([])
        server.handle_exit(signal.SIGTERM, None)
        await asyncio.wait_for(server.main_loop(), PATIENCE_SECONDS)

    asyncio.run(run())


def test_a_second_signal_does_not_cut_the_end_short() -> None:
    """The end is bounded, and what it skips would be reported as errors."""
    server = started([])
    server.handle_exit(signal.SIGINT, None)
    server.handle_exit(signal.SIGINT, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    assert server._captured_signals == [], "uvicorn raises these once more at its end"


@pytest.mark.slow
def test_a_signal_after_the_end_changes_nothing() -> None:
    """Its loop is closed by then."""
    ready: list[str] = []
    server = started(ready)

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server._serve([listening]))
            while not ready:
                await asyncio.sleep(0)
            server.handle_exit(signal.SIGINT, None)
            await asyncio.wait_for(serving, PATIENCE_SECONDS)

    asyncio.run(run())
    server.handle_exit(signal.SIGINT, None)
