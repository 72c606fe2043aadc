"""uvicorn's server without its timer and its accept loop: it wakes only for events."""

import asyncio
import gc
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from andon.host.service_manager import WatchdogFeed
from andon.web.bindings.accepting import Acceptor
from andon.web.bindings.connections import Connection, SharedState
from andon.web.transport.places import Places, Seat
from andon.web.transport.turns import RequestTurns


class QuietServer(uvicorn.Server):
    """Its main loop wakes only for a signal; each connection sets its own Date header."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        places: Places | None = None,
        turns: RequestTurns | None = None,
        feed: WatchdogFeed | None = None,
    ) -> None:
        """`feed` is called in the loop, so that a loop that hangs feeds no watchdog."""
        super().__init__(config)
        self._ready, self._feed = ready, feed
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
        self._ready()
        self._feed_watchdog()

    def _feed_watchdog(self) -> None:
        if self._feed is not None:
            self._feed.call()
            asyncio.get_running_loop().call_later(self._feed.every_seconds, self._feed_watchdog)

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

    def _connection(self, seat: Seat) -> Connection:
        state = self.lifespan.state
        return Connection(seat, self._shared, self.config, self.server_state, state)
