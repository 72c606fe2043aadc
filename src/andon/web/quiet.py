"""uvicorn's server without its clock, which looks ten times a second whether it should end."""

import asyncio
import gc
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn


class QuietServer(uvicorn.Server):
    """Woken by a signal alone; the date that answers carry is told by their connection."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # What is there now stays: looking through it for garbage again and again finds none.
        gc.collect()
        gc.freeze()
        self._ready()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not self.should_exit:
            await self._woken.wait()
            self._woken.clear()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)
