"""Servers on loopback that answer like a model's, in ways a test knows: slow, broken, endless."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class ModelServer:
    """One server in a thread. Each request waits `first_seconds`, then gets `tokens` chunks with
    `gap_seconds` between them. `manner` says what it does instead."""

    def __init__(
        self, tokens: int = 8, first_seconds: float = 0.02, gap_seconds: float = 0.0
    ) -> None:
        self.tokens, self.first_seconds, self.gap_seconds = tokens, first_seconds, gap_seconds
        self.manner = "well"
        self.usage = True
        self.models: set[str] | None = None  # all, under the name of "m"
        self.asked: list[dict[str, object]] = []
        self.keys: list[str] = []
        self.served: list[float] = []  # how long each answer took, by this server's clock
        self.url = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait(30)

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stopped.wait()
        server.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answered(reader, writer):
                pass
        writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        began = time.perf_counter()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if head.startswith("GET /v1/models "):
            self.keys.append(fields.get("Authorization", ""))
            names = [{"id": one} for one in sorted(self.models or {"m"})]
            await self._whole(writer, b"200 OK", json.dumps({"data": names}).encode())
            return True
        asked = json.loads(await reader.readexactly(int(fields["Content-Length"])))
        self.asked.append(asked)
        self.keys.append(fields.get("Authorization", ""))
        if self.manner == "429" or (self.models and asked["model"] not in self.models):
            status = b"429 Too Many" if self.manner == "429" else b"404 Not Found"
            await self._whole(writer, status, b'{"error": "no"}')
            return True
        if self.manner == "nonsense":
            writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
            await writer.drain()
            return False
        await asyncio.sleep(self.first_seconds)
        if not asked["stream"]:
            text = {"choices": [{"message": {"content": "word " * self.tokens}}]}
            body = json.dumps({**text, "usage": {"completion_tokens": self.tokens}}).encode()
            await self._whole(writer, b"200 OK", body)
            return True
        done = await self._streamed(writer)
        self.served.append(time.perf_counter() - began)
        return done

    async def _whole(self, writer: asyncio.StreamWriter, status: bytes, body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % (status, len(body)) + body)
        await writer.drain()

    async def _streamed(self, writer: asyncio.StreamWriter) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        if self.manner == "bad json":
            self._event(writer, b"{nonsense")
        elif self.manner == "one chunk":
            events = [self._token() for _ in range(self.tokens)]
            whole = b"".join(b"data: %s\n\n" % event for event in events)
            writer.write(b"%x\r\n%s\r\n" % (len(whole), whole))
        elif self.manner == "never ends":
            while True:
                self._event(writer, self._token())
                await writer.drain()
                await asyncio.sleep(0.02)
        else:
            for place in range(self.tokens):
                if place and self.gap_seconds:
                    await asyncio.sleep(self.gap_seconds)
                if self.manner == "breaks off" and place == self.tokens // 2:
                    return False
                self._event(writer, self._token())
        if self.usage:
            usage = {"choices": [], "usage": {"completion_tokens": self.tokens}}
            self._event(writer, json.dumps(usage).encode())
        self._event(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _token(self) -> bytes:
        return b'{"choices": [{"index": 0, "delta": {"content": "word "}}]}'

    def _event(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        event = b"data: %s\n\n" % data
        writer.write(b"%x\r\n%s\r\n" % (len(event), event))


@contextmanager
def model_server(
    tokens: int = 8, first_seconds: float = 0.02, gap_seconds: float = 0.0
) -> Iterator[ModelServer]:
    server = ModelServer(tokens, first_seconds, gap_seconds)
    try:
        yield server
    finally:
        server.close()
