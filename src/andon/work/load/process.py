"""The process `load-client`: sends the requests ordered on its standard input, and prints a
line for each that ended."""

import asyncio
import gc
import os
import signal
import sys
import time
from contextlib import suppress
from itertools import pairwise
from random import Random

import msgspec

from andon.model.codec import prepared
from andon.work.load.client import Failed, LoadTarget, ServerConnection, StreamedAnswer
from andon.work.rules.load import (
    BEGUN,
    CHAT,
    NONSENSE,
    REFUSED,
    SLOW,
    TIMEOUT,
    ClientEnd,
    LoadOrder,
    RequestResult,
    arrivals,
    own_concurrency,
    own_requests,
)

LAG_SECONDS = 0.01
_encode = msgspec.json.encode


class LoadClient:
    """Sends the requests of one order."""

    def __init__(self, order: LoadOrder) -> None:
        self._order, self._server = order, LoadTarget(order.url)
        self._random = Random(f"{order.seed} {order.share}")  # noqa: S311 - arrivals, not secrets
        self._requests = [self._server.request(self._body(p), order.key) for p in order.prompts]
        self._stopped = asyncio.Event()
        self._began = 0.0
        self._wall = 0.0
        self._sent = self._chunks = 0
        self._lag: list[float] = []

    def _body(self, prompt: str) -> bytes:
        order = self._order
        body: dict[str, object] = {"model": order.model, "stream": order.stream}
        if order.url.endswith(CHAT):
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        if order.output_tokens is not None:
            body |= {"max_tokens": order.output_tokens, "ignore_eos": True}
        if order.stream:
            body["stream_options"] = {"include_usage": True}
        return _encode(body)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        for _ in range(self._order.warm_up):
            await self._one(time.perf_counter(), measured=False)
        gc.collect()
        gc.freeze()  # what lives from here on is small: a collection would be a pause
        watch = asyncio.create_task(self._watch())
        self._began, self._wall = time.perf_counter(), time.time()
        self._print(BEGUN)
        stop = asyncio.create_task(self._stopped.wait())
        load = asyncio.create_task(self._open() if self._order.rate else self._closed())
        await asyncio.wait([stop, load], return_when=asyncio.FIRST_COMPLETED)
        seconds = time.perf_counter() - self._began
        for task in (watch, stop, load):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._server.close()
        self._print(ClientEnd(tuple(self._lag), seconds, self._chunks))

    async def _open(self) -> None:
        """Sends each request when it is due, without waiting for the answers to others."""
        tasks = set[asyncio.Task[None]]()
        try:
            for due in arrivals(self._order, self._random.random):
                planned = self._began + due
                left = planned - time.perf_counter()
                if left > 0:
                    await asyncio.sleep(left)
                task = asyncio.create_task(self._one(planned))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            while tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _closed(self) -> None:
        """Keeps a fixed number of requests in progress."""
        workers = [asyncio.create_task(self._worker()) for _ in range(own_concurrency(self._order))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _worker(self) -> None:
        most, lasts = own_requests(self._order), self._order.seconds
        while most is None or self._sent < most:
            now = time.perf_counter()
            if lasts is not None and now - self._began >= lasts:
                return
            await self._one(now)

    async def _one(self, planned: float, measured: bool = True) -> None:
        place = self._sent % len(self._requests)
        self._sent += measured
        connection: ServerConnection | None = None
        sent = planned
        try:
            async with asyncio.timeout(self._order.timeout_seconds):
                connection = await self._server.connection()
                sent = time.perf_counter()
                answer = await connection.ask(self._requests[place])
            self._server.give_back(connection)
            result = self._result(planned, sent, answer)
        except Failed as failed:
            result = self._failed(planned, sent, failed.kind, failed.detail)
        except TimeoutError:
            slow = connection is not None and connection.has_begun
            result = self._failed(planned, sent, SLOW if slow else TIMEOUT)
        except OSError as error:
            reason = error.strerror or str(error)
            if isinstance(error, ConnectionError) and error.errno:
                reason = os.strerror(error.errno)  # without asyncio's own text and addresses
            result = self._failed(planned, sent, REFUSED, reason)
        finally:
            if sys.exc_info()[0] is not None and connection is not None:
                connection.close()
        if result.error is not None and connection is not None:
            connection.close()
        if measured:
            self._print(result)
            if result.error == REFUSED and self._order.rate is None:
                await asyncio.sleep(0.05)  # a closed load on no server would be a busy loop

    def _result(self, planned: float, sent: float, answer: StreamedAnswer) -> RequestResult:
        times = answer.times
        tokens = len(times) if answer.tokens is None else answer.tokens
        if not tokens and not times:
            return self._failed(planned, sent, NONSENSE, "an answer without text")
        self._chunks += len(times)
        gaps = tuple(round(b - a, 6) for a, b in pairwise(times))
        return RequestResult(
            self._wall + planned - self._began,
            round(sent - planned, 6),
            round(times[0] - planned, 6) if times and self._order.stream else None,
            round(answer.ended - planned, 6),
            tokens,
            answer.tokens is not None,
            gaps,
        )

    def _failed(self, planned: float, sent: float, kind: str, detail: str = "") -> RequestResult:
        at = self._wall + planned - self._began
        return RequestResult(at, round(sent - planned, 6), error=kind, detail=detail)

    async def _watch(self) -> None:
        """Measures the delay of this event loop."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(LAG_SECONDS)
            self._lag.append(round(max(0.0, time.perf_counter() - before - LAG_SECONDS), 5))

    def _print(self, line: RequestResult | ClientEnd | str) -> None:
        sys.stdout.buffer.write(_encode(line) + b"\n")
        sys.stdout.buffer.flush()


def main(arguments: list[str]) -> int:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=prepared(LoadOrder))
    with suppress(BrokenPipeError):
        asyncio.run(LoadClient(order).run())
    return 0
