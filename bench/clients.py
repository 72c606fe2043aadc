"""Cheap Socket.IO clients: `python -m bench.clients PORT COUNT STALLED SECONDS`.

They implement the protocol over WebSocket (Engine.IO 4), subscribe to every snapshot, and record
when each update arrived. A stalled one subscribes too, but reads nothing; when the server
disconnects it, it connects again.
"""

import asyncio
import base64
import json
import os
import re
import select
import socket
import sys
import threading
import time
from functools import partial

from msgspec import Struct, field

UPDATES = re.compile(rb'^42\["(snapshot|gpu_status_update)",\{.{0,400}?"at":([0-9.]+)', re.DOTALL)
SETTLING_SECONDS = 2.0
SMALL_BUFFER = 4096
_TEXT, _CLOSE = 0x81, 0x8


class Heard(Struct):
    """What one client received: for each event and snapshot time, its delay."""

    delays: dict[tuple[str, float], float] = field(default_factory=dict)
    closed: bool = False


class Client(asyncio.Protocol):
    """One connection: WebSocket frames in, Socket.IO packets out."""

    def __init__(self, port: int, subscribed: asyncio.Event) -> None:
        self.heard = Heard()
        self._port, self._subscribed = port, subscribed
        self._rest = bytearray()
        self._open = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(handshake(self._port))

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if not self._open:
            if b"\r\n\r\n" not in self._rest:
                return
            head, _, rest = bytes(self._rest).partition(b"\r\n\r\n")
            assert b" 101 " in head.splitlines()[0], head
            self._rest, self._open = bytearray(rest), True
        for payload in self._payloads():
            self._take(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.closed = True

    def _payloads(self) -> list[bytes]:
        found, at, rest = [], 0, self._rest
        while len(rest) >= at + 2:
            size, head = rest[at + 1], 2
            if size == 126:
                size, head = int.from_bytes(rest[at + 2 : at + 4], "big"), 4
            elif size == 127:
                size, head = int.from_bytes(rest[at + 2 : at + 10], "big"), 10
            if len(rest) < at + head + size:
                break
            found.append(bytes(rest[at + head : at + head + size]))
            at += head + size
        del rest[:at]
        return found

    def _take(self, payload: bytes) -> None:
        update = UPDATES.match(payload)
        if update is not None:
            at = float(update[2])
            self.heard.delays[update[1].decode(), at] = time.time() - at
        elif payload.startswith(b"0{"):
            self._send(b"40")
        elif payload.startswith(b"40"):
            self._send(b'420["subscribe","snapshot"]')
        elif payload.startswith(b"430"):
            self._subscribed.set()
        elif payload == b"2":
            self._send(b"3")

    def _send(self, payload: bytes) -> None:
        assert self._transport is not None
        self._transport.write(frame(payload))


def handshake(port: int) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def frame(payload: bytes) -> bytes:
    """A client's frame; a mask of zeros leaves the payload as it is."""
    return bytes([_TEXT, 0x80 | len(payload)]) + bytes(4) + payload


class Stalled:
    """A client that subscribes to everything, reads nothing, and reconnects."""

    def __init__(self, port: int) -> None:
        self.connections = 0
        self._port = port
        threading.Thread(target=self._stall, daemon=True).start()

    def _stall(self) -> None:
        while True:
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
                connection.connect(("127.0.0.1", self._port))
                connection.sendall(handshake(self._port))
                greeting = b""
                while b"0{" not in greeting:
                    greeting += connection.recv(SMALL_BUFFER)
                connection.sendall(frame(b"40") + frame(b'42["subscribe","snapshot"]'))
                self.connections += 1
                cut = select.poll()
                cut.register(connection, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
                cut.poll()


async def listen(port: int, count: int, seconds: float) -> list[Heard]:
    """Connect them all, report that on standard output, and receive for a while."""
    clients: list[Client] = []
    loop = asyncio.get_running_loop()
    for _ in range(count):
        subscribed = asyncio.Event()
        _, client = await loop.create_connection(
            partial(Client, port, subscribed), "127.0.0.1", port
        )
        await subscribed.wait()
        clients.append(client)
    print("connected", flush=True)
    await asyncio.sleep(SETTLING_SECONDS)
    for client in clients:
        client.heard.delays.clear()
    await asyncio.sleep(seconds)
    return [client.heard for client in clients]


def summed_up(every: list[Heard], stalled: list[Stalled], cpu_seconds: float) -> dict[str, object]:
    """Results of all clients; the last second is left out, because it may still be in transit."""
    said = sorted({update for heard in every for update in heard.delays}, key=lambda u: u[1])
    end = max((at for _, at in said), default=0.0) - 1.0
    said = [update for update in said if update[1] < end]
    delays = sorted(d for heard in every for u, d in heard.delays.items() if u[1] < end)
    lost = sum(update not in heard.delays for heard in every for update in said)
    # A tick is due at whole seconds of the machine's clock.
    offset = time.time() - time.monotonic()
    ticks = [at for name, at in said if name == "snapshot"]
    return {
        "clients": len(every),
        "closed": sum(heard.closed for heard in every),
        "updates": len(said),
        "delivered": len(delays),
        "lost": lost,
        "delay_median_seconds": delays[len(delays) // 2] if delays else None,
        "delay_p99_seconds": delays[int(0.99 * (len(delays) - 1))] if delays else None,
        "delay_most_seconds": delays[-1] if delays else None,
        "ticks_late_seconds": sorted((at - offset) % 1.0 for at in ticks),
        "stalled_connections": sum(one.connections for one in stalled),
        "cpu_seconds": cpu_seconds,
    }


def main(port: str, count: str, stalled: str, seconds: str) -> None:
    stalls = [Stalled(int(port)) for _ in range(int(stalled))]
    heard = asyncio.run(listen(int(port), int(count), float(seconds)))
    print(json.dumps(summed_up(heard, stalls, time.process_time())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
