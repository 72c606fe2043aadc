"""A server for `bench.load`: streams chunks as fast as it can, or with a known service time."""

import asyncio
import sys
from contextlib import suppress
from time import perf_counter

CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,'
    b'"delta":{"content":"word "},"finish_reason":null}]}\n\n'
)
EVENT = b"%x\r\n%s\r\n" % (len(CHUNK), CHUNK)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def _answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tokens: int, gap: float
) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    began = perf_counter()
    length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
    await reader.readexactly(length)
    writer.write(HEAD)
    for _ in range(tokens):
        if gap:
            await asyncio.sleep(gap)
        writer.write(EVENT)
        await writer.drain()
        if not gap:
            await asyncio.sleep(0)  # so that chunks of many requests mix, as a real server's
    writer.write(LAST)
    await writer.drain()
    print(f"{perf_counter() - began:.6f}", flush=True)


async def main() -> None:
    tokens, gap = int(sys.argv[1]), float(sys.argv[2])

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await _answered(reader, writer, tokens, gap)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
