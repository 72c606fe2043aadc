"""Runs slow work outside the server's event loop, with a limit on how much at once."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from fastapi import Request

from andon.errors import Gone, Unavailable
from andon.web.transport.headers import until_disconnected

MOST_AT_ONCE = 8
MOST_WAITING = 4

T = TypeVar("T")


class Visit:
    """One caller, who may disconnect before being served."""

    def __init__(self) -> None:
        self._left = threading.Event()

    def leave(self) -> None:
        self._left.set()

    def go_on(self) -> None:
        """Called regularly by the work; raises once the caller has disconnected."""
        if self._left.is_set():
            raise Gone("the client disconnected", hint="send the request again")


class BlockingPool:
    """A separate thread pool: waiting here does not delay other requests."""

    def __init__(
        self, what: str, most: int = MOST_AT_ONCE, most_waiting: int = MOST_WAITING
    ) -> None:
        """`what` is the kind of its requests, for the message that there are too many."""
        self._what, self._most, self._most_waiting = what, most, most_waiting
        self._busy = self._waiting = 0
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="andon blocking")

    async def do(
        self, request: Request, work: Callable[[Visit], T], wait_seconds: float = 0.0
    ) -> T:
        """Returns the result of the work, which is notified if the caller or the server ends."""
        waits = wait_seconds > 0
        self._refuse_more(waits)
        visit, loop = Visit(), asyncio.get_running_loop()
        self._busy += 1
        self._waiting += waits
        working = loop.run_in_executor(self._pool, work, visit)
        working.add_done_callback(lambda _: self._done(waits))
        watching = loop.create_task(_watch(request, visit))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            visit.leave()
            raise
        finally:
            watching.cancel()

    def _refuse_more(self, waits: bool) -> None:
        if waits and self._waiting >= self._most_waiting:
            raise Unavailable(
                f"the maximum of {self._most_waiting} clients are waiting for devices",
                hint="use wait_seconds 0, or try again later",
            )
        if self._busy >= self._most:
            raise Unavailable(f"too many {self._what} requests at once", hint="try again")

    def _done(self, waited: bool) -> None:
        self._busy -= 1
        self._waiting -= waited


async def _watch(request: Request, visit: Visit) -> None:
    """Watches for the end of the connection: the body has been read, so any message is the end."""
    with suppress(RuntimeError):
        await until_disconnected(request.receive)
    visit.leave()
