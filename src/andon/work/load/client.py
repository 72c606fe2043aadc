"""A connection to a server that streams its answers: HTTP/1.1 without a library, for speed."""

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from time import perf_counter, time
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Struct

from andon.units import whole_number
from andon.work.rules.load import BROKE, NONSENSE

MOST_HEAD = 64 * 1024
MOST_BODY = 64 << 20
MOST_GAPS = 100_000


class _Delta(Struct):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None


class _Usage(Struct):
    completion_tokens: int | None = None


class _Chunk(Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
SO_TIMESTAMPNS, STAMP = 35, struct.Struct("@qq")  # of Linux; Python has no name for it


class Failed(Exception):
    """A request that failed, by its kind."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.detail = kind, detail[:200]


class StreamedAnswer:
    """An answer: when each text arrived, and how many tokens the server counted."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.ended = 0.0
        self.tokens: int | None = None
        self.is_done = False

    def take(self, data: bytes, now: float) -> None:
        """Adds one event of a stream, or a whole body."""
        try:
            chunk = _decode(data)
        except msgspec.DecodeError:
            raise Failed(NONSENSE, data[:200].decode(errors="replace")) from None
        if chunk.error is not None:
            raise Failed(NONSENSE, str(chunk.error))
        if chunk.usage is not None and chunk.usage.completion_tokens is not None:
            self.tokens = chunk.usage.completion_tokens
        for choice in chunk.choices:
            message = choice.delta or choice.message
            text = choice.text if message is None else message.content or message.reasoning_content
            if text:
                self.times.append(now)
                break


class StampedSocket(socket.socket):
    """A socket with the time at which the kernel received the last bytes, because this process may
    read them later."""

    arrived: float | None = None  # as perf_counter counts; None if the kernel does not say

    def recv(self, size: int, flags: int = 0) -> bytes:
        data, notes, _, _ = self.recvmsg(size, 64, flags)
        for _, kind, stamp in notes:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = STAMP.unpack(stamp)
                self.arrived = perf_counter() - max(0.0, time() - seconds - nanoseconds / 1e9)
        return data


class ServerConnection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, reads: StampedSocket) -> None:
        self._reads, self._now = reads, 0.0
        self._transport: asyncio.Transport | None = None
        self._answer = StreamedAnswer()
        self._future: asyncio.Future[StreamedAnswer] | None = None
        self.is_open = False
        self._reset()

    def _reset(self) -> None:
        self._buffer = b""
        self._head_done = self._chunked = self._stream = self._close = False
        self._length: int | None = None
        self._body = b""
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True

    async def ask(self, request: bytes) -> StreamedAnswer:
        """Sends a request and returns its whole answer; raises Failed."""
        assert self._transport is not None
        self._reset()
        self._answer = StreamedAnswer()
        future: asyncio.Future[StreamedAnswer] = asyncio.get_running_loop().create_future()
        self._future = future
        self._transport.write(request)
        try:
            return await future
        finally:
            self._future = None

    @property
    def has_begun(self) -> bool:
        """Whether any part of an answer has arrived."""
        return bool(self._answer.times)

    def close(self) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._future is None or self._future.done():
            self.close()  # the server sent something without a request
            return
        self._now = self._reads.arrived or perf_counter()
        try:
            self._take(data)
        except Failed as failed:
            self._fail(failed)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._future is None or self._future.done():
            return
        whole = self._head_done and not self._chunked and self._length is None
        if whole and (self._answer.is_done or not self._stream):
            self._finish()
        else:
            self._fail(Failed(BROKE, "the server closed the connection"))

    def _fail(self, failed: Failed) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_exception(failed)
        self.close()

    def _finish(self) -> None:
        try:
            if self._status != 200:
                raise Failed(str(self._status), self._body[:200].decode(errors="replace"))
            if not self._stream:
                self._answer.take(self._body, self._now)
        except Failed as failed:
            self._fail(failed)
            return
        self._answer.ended = self._now
        if self._close:
            self.close()
        if self._future is not None and not self._future.done():
            self._future.set_result(self._answer)

    def _take(self, data: bytes) -> None:
        if not self._head_done:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MOST_HEAD or not b"HTTP/1.".startswith(self._buffer[:7]):
                    raise Failed(NONSENSE, self._buffer[:60].decode(errors="replace"))
                return
            data = self._buffer[end + 4 :]
            self._read_head(self._buffer[:end])
            self._buffer = b""
        if self._chunked:
            self._take_chunked(data)
            return
        if self._length is not None:
            self._length -= len(data)
        self._payload(data)
        if self._length is not None and self._length <= 0:
            self._finish()

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        fields = first.split(b" ", 2)
        if not fields[0].startswith(b"HTTP/1.") or len(fields) < 2 or not fields[1].isdigit():
            raise Failed(NONSENSE, first[:60].decode(errors="replace"))
        self._status, self._head_done = int(fields[1][:9]), True
        named = {}
        for line in lines:
            name, _, value = line.partition(b":")
            named[name.strip().lower()] = value.strip().lower()
        self._chunked = b"chunked" in named.get(b"transfer-encoding", b"")
        self._stream = self._status == 200 and b"event-stream" in named.get(b"content-type", b"")
        self._close = named.get(b"connection") == b"close" or fields[0] == b"HTTP/1.0"
        length = named.get(b"content-length", b"")
        self._length = None if self._chunked else whole_number(length.decode("latin-1"))
        if self._length == 0:
            self._finish()

    def _take_chunked(self, data: bytes) -> None:
        """Parses the pieces of a chunked body; most come whole."""
        if self._buffer:
            data = self._buffer + data
        start = 0
        while (line := data.find(b"\r\n", start)) >= 0:
            try:
                size = int(data[start:line].partition(b";")[0], 16)
            except ValueError:
                raise Failed(NONSENSE, "a chunk without a size") from None
            if size == 0:
                if data.find(b"\r\n", line + 2) < 0:
                    break  # the last line has not come yet
                self._buffer = b""
                self._finish()
                return
            end = line + 2 + size
            if len(data) < end + 2:
                break
            self._payload(data[line + 2 : end])
            start = end + 2
        self._buffer = data[start:]
        if len(self._buffer) > MOST_BODY:
            raise Failed(NONSENSE, "an answer without end")

    def _payload(self, data: bytes) -> None:
        if self._stream and not self._body and data.count(b"\n") == 2 and data.endswith(b"\n\n"):
            self._line(data[:-2])  # one whole event, as most are
            return
        self._body += data
        if not self._stream:
            if len(self._body) > MOST_BODY:
                raise Failed(NONSENSE, "an answer without end")
            return
        if b"\r" in self._body:
            self._body = self._body.replace(b"\r\n", b"\n")
        *events, self._body = self._body.split(b"\n\n")
        for event in events:
            for line in event.split(b"\n"):
                self._line(line)

    def _line(self, line: bytes) -> None:
        """Parses one line of an event."""
        if line.startswith(b"data:"):
            text = line[5:].strip()
            if text == b"[DONE]":
                self._answer.is_done = True
            elif len(self._answer.times) < MOST_GAPS:
                self._answer.take(text, self._now)


class LoadTarget:
    """The server that requests go to, with its free connections."""

    def __init__(self, url: str) -> None:
        self._parts: SplitResult = urlsplit(url)
        self._tls = ssl.create_default_context() if self._parts.scheme == "https" else None
        self._free: list[ServerConnection] = []

    def request(self, body: bytes, key: str) -> bytes:
        parts = self._parts
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        secret = f"Authorization: Bearer {key}\r\n" if key else ""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n{secret}"
            f"Content-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1", "replace") + body

    async def connection(self) -> ServerConnection:
        while self._free:
            found = self._free.pop()
            if found.is_open:
                return found
        loop, host = asyncio.get_running_loop(), self._parts.hostname or ""
        port = self._parts.port or (443 if self._tls else 80)
        plain, _ = await loop.create_connection(asyncio.Protocol, host, port)
        reads = StampedSocket(fileno=plain.get_extra_info("socket").dup().detach())
        plain.abort()  # its descriptor, not the connection
        reads.setblocking(False)
        with suppress(OSError):
            reads.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        _, made = await loop.create_connection(
            lambda: ServerConnection(reads),
            sock=reads,
            ssl=self._tls,
            server_hostname=host if self._tls else None,
        )
        return made

    def give_back(self, connection: ServerConnection) -> None:
        if connection.is_open:
            self._free.append(connection)

    def close(self) -> None:
        for one in self._free:
            one.close()
