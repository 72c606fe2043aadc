"""uvicorn's server without its timer and its accept loop: it wakes only for events."""

import asyncio
import ctypes
import gc
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

from andon.web.bindings.accepting import Acceptor
from andon.web.bindings.connections import Connection, SharedState
from andon.web.transport.places import Places, Seat
from andon.web.transport.turns import RequestTurns

CALM_SECONDS = 5.0
_USUAL = gc.get_threshold()
_SELDOM = 100  # ten times as many objects as usual before a full collection


def collect_rarely() -> None:
    """Run full collections less often under load: each one pauses all threads."""
    gc.set_threshold(*_USUAL[:2], _SELDOM)


def release_memory() -> None:
    """Collect reference cycles, which an idle process does late, and return free pages.

    Memory in partly used arenas stays allocated: the next burst uses it.
    """
    gc.set_threshold(*_USUAL)
    gc.collect()
    with suppress(OSError, AttributeError):  # a system without glibc
        ctypes.CDLL(None).malloc_trim(0)


class QuietServer(uvicorn.Server):
    """Its main loop wakes only for a signal; each connection sets its own Date header."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        places: Places | None = None,
        turns: RequestTurns | None = None,
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._places = Places() if places is None else places  # an empty one is falsy
        self._shared = SharedState(turns)
        self._acceptors: list[Acceptor] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # no sockets: the acceptors below serve them
        self._acceptors = [
            Acceptor(one, self._places, self._connection, self.config.ssl, self._shared.turns)
            for one in sockets or []
        ]
        # What exists now stays: scanning it for garbage again and again would find nothing.
        gc.collect()
        gc.freeze()
        self._places.crowded, self._places.calmed = collect_rarely, self._calmed
        self._ready()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self.should_exit:
            await self._woken.wait()
            self._woken.clear()
        self._loop = None  # a further signal may come when the loop is closed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server at the first signal; further ones are ignored. The shutdown has a time
        limit; uvicorn's own handler would cut it short after a second Ctrl-C and report each
        cancelled task as an error."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    def _calmed(self) -> None:
        """Frees memory after a delay, so that closed connections are freed first."""
        asyncio.get_running_loop().call_later(CALM_SECONDS, release_memory)

    def _connection(self, seat: Seat) -> Connection:
        state = self.lifespan.state
        return Connection(seat, self._shared, self.config, self.server_state, state)
