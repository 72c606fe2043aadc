"""Reads history in a separate thread, so that expensive requests delay only each other.

Identical requests that are in progress share one answer. Waiting requests with a valid key come
first, and each peer without one gets only its share of the queue.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from fastapi import Request
from msgspec import Struct

from andon.access.lockout import peer_of
from andon.errors import Gone, Unavailable
from andon.web.fleet.paths import NODE
from andon.web.transport.auth import TRUSTED
from andon.web.transport.headers import until_disconnected

THREADS = 1  # a second one would only compete with the first and with the loop
MOST_WAITING = 32
SHARE = 16  # of one peer without a key, running and waiting
T = TypeVar("T")


class Busy(Unavailable):
    """Too many requests at once; Retry-After says when to try again."""

    retry_seconds = 5


class _Job(Struct, eq=False):
    key: Hashable
    work: Callable[[], bytes]
    found: asyncio.Future[bytes]
    peer: str | None  # None with a valid key
    callers: int = 0


class HistoryReader:
    """A small pool with a bounded queue; only the work itself runs outside the loop."""

    def __init__(
        self,
        threads: int = THREADS,
        most_waiting: int = MOST_WAITING,
        share: int = SHARE,
        what: str = "history",
    ) -> None:
        self._what = what
        self._threads, self._most_waiting, self._share = threads, most_waiting, share
        self._jobs: dict[Hashable, _Job] = {}
        self._waiting: dict[bool, deque[_Job]] = {True: deque(), False: deque()}
        self._of_peers: Counter[str | None] = Counter()
        self._busy = 0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"andon {what}")

    async def read(self, request: Request, key: Hashable, work: Callable[[], bytes]) -> bytes:
        """The result of the work; requests with an equal `key` about a node are the same."""
        key = (request.scope.get(NODE), key)
        job = self._jobs.get(key)
        if job is None:
            job = self._queued(request, key, work)
        elif request.scope.get(TRUSTED):
            self._prefer(job)
        job.callers += 1
        gone = asyncio.ensure_future(until_disconnected(request.receive))
        try:
            await asyncio.wait((job.found, gone), return_when=asyncio.FIRST_COMPLETED)
            if not job.found.done():
                raise Gone("the client disconnected", hint="send the request again")
            return job.found.result()
        finally:
            gone.cancel()
            job.callers -= 1
            self._forget(job)

    async def do(self, work: Callable[[], T]) -> T:
        """A short piece of work in the same thread, between the requests."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _queued(self, request: Request, key: Hashable, work: Callable[[], bytes]) -> _Job:
        trusted = bool(request.scope.get(TRUSTED))
        peer = None if trusted else peer_of(request.client.host if request.client else None)
        self._refuse_more(peer)
        job = _Job(key, work, asyncio.get_running_loop().create_future(), peer)
        self._jobs[key] = job
        self._of_peers[peer] += 1
        self._waiting[trusted].append(job)
        self._next()
        return job

    def _prefer(self, job: _Job) -> None:
        """Moves a job forward because a caller with a valid key asks for the same."""
        if job in self._waiting[False]:
            self._waiting[False].remove(job)
            self._waiting[True].append(job)

    def _refuse_more(self, peer: str | None) -> None:
        waiting = sum(map(len, self._waiting.values()))
        if waiting >= self._most_waiting:
            raise Busy(f"too many {self._what} requests are waiting", hint="try again")
        if peer is not None and self._of_peers[peer] >= self._share:
            raise Busy(
                f"the maximum of {self._share} {self._what} requests from this address are waiting",
                hint="try again; with the token the limit is higher",
            )

    def _next(self) -> None:
        while self._busy < self._threads and (queue := self._waiting[True] or self._waiting[False]):
            job = queue.popleft()
            self._busy += 1
            loop = asyncio.get_running_loop()
            working = loop.run_in_executor(self._pool, job.work)
            working.add_done_callback(partial(self._done, job))

    def _done(self, job: _Job, done: asyncio.Future[bytes]) -> None:
        self._busy -= 1
        self._end(job)
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or not job.callers:
            job.found.cancel()
        elif error is not None:
            job.found.set_exception(error)
        else:
            job.found.set_result(done.result())
        self._next()

    def _forget(self, job: _Job) -> None:
        """Drops a job that has no caller left, if it has not started."""
        if job.callers:
            return
        for queue in self._waiting.values():
            if job in queue:
                queue.remove(job)
                self._end(job)

    def _end(self, job: _Job) -> None:
        del self._jobs[job.key]
        self._of_peers[job.peer] -= 1
        if not self._of_peers[job.peer]:
            del self._of_peers[job.peer]
