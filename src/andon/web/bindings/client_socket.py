"""Keeps one slow client from delaying the others."""

import asyncio
from collections.abc import Awaitable
from typing import Any

OUTBOX_PACKETS = 32
"""About half a minute at one snapshot a second."""
AGAIN_SECONDS = (0.2, 1.0)


class BoundedQueue(asyncio.Queue[Any]):
    """A client's outbound queue with a limit; the library's has none.

    Putting never waits: what does not fit is dropped and marks the client, which is then closed.
    """

    def __init__(self, *_: object) -> None:
        super().__init__()
        self.overrun = False

    async def put(self, item: Any) -> None:
        if item is not None and self.qsize() >= OUTBOX_PACKETS:
            self.overrun = True
            return
        await super().put(item)


class ClientSocket:
    """One WebSocket, which can be closed even if its client has stopped reading."""

    def __init__(self, held: Awaitable[None]) -> None:
        self._task = asyncio.ensure_future(held)
        self._is_cut = False

    async def held(self) -> None:
        """Wait until the connection ends or is cut."""
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._is_cut:
                raise

    def cut(self) -> None:
        """Cancels the connection repeatedly: the library takes the first cancellation as a
        disconnect and then waits for a stuck writer."""
        self._is_cut = True
        self._task.cancel()
        loop = asyncio.get_running_loop()
        for seconds in AGAIN_SECONDS:
            loop.call_later(seconds, self._cancel_again)

    def _cancel_again(self) -> None:
        if not self._task.done():
            self._task.cancel()
