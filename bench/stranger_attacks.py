"""Anonymous clients for a server: `python -m bench.stranger_attacks KIND PORT COUNT SECONDS`.

They run in a separate process with as many files as the system allows, print `ready` when all are
connected, stay for the requested time, and end with a line of JSON.
"""

import asyncio
import json
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

HOST = "127.0.0.1"
CONNECT_SECONDS = 15.0
AGAIN_SECONDS = 1.0
CHARTS = (
    "/api/devices/{device}/charts?points=2000&since={since}&metrics=utilization_percent,"
    "memory_used_bytes,temperature_celsius,power_watts,sm_clock_mhz,memory_clock_mhz"
)
WEEK_SECONDS = 7 * 86_400

Outcomes = Counter[str]


async def silent(port: int, count: int, seconds: float) -> Outcomes:
    """Connections that never send anything, all at once."""
    outcomes: Outcomes = Counter()
    opened = await asyncio.gather(*(_connected(port, outcomes) for _ in range(count)))
    _ready()
    await asyncio.sleep(seconds)
    for one in opened:
        if one is not None:
            one.close()
    return outcomes


async def polls(port: int, count: int, seconds: float) -> Outcomes:
    """One live connection, and as many requests that wait for its next event."""
    outcomes: Outcomes = Counter()
    sid = json.loads((await _asked(port, "/socket.io/?EIO=4&transport=polling"))[1][1:])["sid"]
    path = f"/socket.io/?EIO=4&transport=polling&sid={sid}"
    return await _all(port, [path] * count, seconds, outcomes)


async def handshakes(port: int, count: int, seconds: float) -> Outcomes:
    """Live connections that are opened and then left idle."""
    outcomes: Outcomes = Counter()
    return await _all(port, ["/socket.io/?EIO=4&transport=polling"] * count, seconds, outcomes)


async def charts(port: int, count: int, seconds: float) -> Outcomes:
    """The most expensive query, by many clients at once, repeatedly."""
    outcomes: Outcomes = Counter()
    end, since = time.monotonic() + seconds, time.time() - WEEK_SECONDS

    async def ask(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            turn += 1
            path = CHARTS.format(device=number % 8, since=since + number + turn / 1000)
            outcomes[await _status(port, path)] += 1

    asked = [asyncio.create_task(ask(number)) for number in range(count)]
    _ready()
    await asyncio.gather(*asked)
    return outcomes


async def _all(port: int, paths: list[str], seconds: float, outcomes: Outcomes) -> Outcomes:
    """Each client that is refused or answered tries again, until the time is over."""

    async def ask(path: str) -> None:
        while True:
            outcomes[await _status(port, path)] += 1
            await asyncio.sleep(AGAIN_SECONDS)

    asked = [asyncio.create_task(ask(path)) for path in paths]
    _ready()
    await asyncio.wait(asked, timeout=seconds)
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    return outcomes


async def _connected(port: int, outcomes: Outcomes) -> socket.socket | None:
    one = socket.socket()
    one.setblocking(False)
    try:
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.sock_connect(one, (HOST, port)), CONNECT_SECONDS)
    except (OSError, TimeoutError) as exc:
        outcomes[type(exc).__name__] += 1
        one.close()
        return None
    outcomes["connected"] += 1
    return one


async def _status(port: int, path: str) -> str:
    try:
        return (await _asked(port, path))[0]
    except (OSError, TimeoutError, IndexError) as exc:
        await asyncio.sleep(0.01)
        return type(exc).__name__


async def _asked(port: int, path: str) -> tuple[str, str]:
    """Status and body of one request on its own connection."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        head = f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"  # no chunks
        writer.write(head.encode())
        answer = (await reader.read()).decode("utf-8", "replace")
        head, _, body = answer.partition("\r\n\r\n")
        return head.split()[1], body
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _ready() -> None:
    print("ready", flush=True)


KINDS: dict[str, Callable[[int, int, float], Awaitable[Outcomes]]] = {
    "silent": silent,
    "polls": polls,
    "handshakes": handshakes,
    "charts": charts,
}


async def play(kind: str, port: int, count: int, seconds: float) -> Outcomes:
    return await KINDS[kind](port, count, seconds)


def main(kind: str, port: str, count: str, seconds: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    outcomes = asyncio.run(play(kind, int(port), int(count), float(seconds)))
    print(json.dumps(dict(outcomes)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
