"""A server that is no andon server and means harm: slow, endless, huge, lying; a manner each."""

import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PAUSE_SECONDS = 0.02
PACKED = zlib.compress(b'{"items":[' + b" " * (4 << 20) + b"]}", 9)

Manner = Callable[["Caller"], None]


@dataclass
class Caller:
    """A connection, and what was asked on it."""

    connection: socket.socket
    path: str
    ended: threading.Event

    def send(self, content: bytes) -> None:
        self.connection.sendall(content)

    def answer(self, body: bytes, head: bytes = b"") -> None:
        self.send(OK + head + b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def for_ever(self, first: bytes, again: bytes, pause: bool = False) -> None:
        self.send(first)
        while not self.ended.wait(PAUSE_SECONDS if pause else 0):
            self.send(again)


def _run(number: int, **changed: object) -> dict[str, object]:
    return {
        "id": f"run{number:05}", "name": "train", "kind": "command", "state": "succeeded",
        "node": "n", "began": 1763170000.0, "user": "bob", "ended": 1763170001.0,
        "duration_seconds": 1.0, "command": None, "devices": [], "telemetry_reason": None,
        "params": {}, "tags": [], "last_values": {}, **changed,
    }  # fmt: skip


def _page(**changed: object) -> Manner:
    """A list of runs, of which one thing is not as it should be."""
    page = {"items": [_run(n) for n in range(100)], "total": 100, "note": None, **changed}
    return lambda caller: caller.answer(json.dumps(page).encode())


def _endless_pages(caller: Caller) -> None:
    """New runs on every page, and more are always announced."""
    offset = int(caller.path.partition("offset=")[2].partition("&")[0] or 0)
    page = {"items": [_run(offset + n) for n in range(100)], "total": 100_000, "note": None}
    caller.answer(json.dumps(page).encode())


def odd_id(name: str) -> Manner:
    def play(caller: Caller) -> None:
        if caller.path.endswith("/record"):
            caller.answer(b"written\n")
        elif "?" in caller.path:
            page = {"items": [_run(0, id=name)], "total": 1, "note": None}
            caller.answer(json.dumps(page).encode())
        else:
            caller.answer(json.dumps(_run(0, id=name)).encode())

    return play


def _refusal(**said: object) -> Manner:
    body = json.dumps({"error": said}).encode()
    head = b"HTTP/1.1 422 x\r\nContent-Length: %d\r\n\r\n" % len(body)
    return lambda caller: caller.send(head + body)


SLOW: dict[str, Manner] = {
    "a slow status line": lambda caller: caller.for_ever(b"HTTP/1.1 ", b"2", pause=True),
    "slow headers": lambda caller: caller.for_ever(OK + b"X: ", b"x", pause=True),
    "a slow body": lambda caller: caller.for_ever(
        OK + b"Content-Length: 9999\r\n\r\n", b" ", pause=True
    ),
    "slow chunks": lambda caller: caller.for_ever(
        OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", pause=True
    ),
    "continue for ever": lambda caller: caller.for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing at all": lambda caller: caller.for_ever(b"", b"", pause=True),
}
"""Each would hold a caller up for ever."""
FAST: dict[str, Manner] = {
    "endless headers": lambda caller: caller.for_ever(OK, b"X: x\r\n"),
    "an endless header": lambda caller: caller.for_ever(OK + b"X: ", b"x" * 65536),
    "an endless body": lambda caller: caller.for_ever(OK + b"\r\n", b" " * 65536),
    "endless chunks": lambda caller: caller.for_ever(
        OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"
    ),
    "a huge chunk": lambda caller: caller.send(
        OK + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n "
    ),
    "very many empty lists": lambda caller: caller.answer(
        b'{"items":[' + b"[]," * 200_000 + b"[]]}"
    ),
    "deep nesting": lambda caller: caller.answer(b'{"items":' + b"[" * 90_000),
    "a huge number": lambda caller: caller.answer(b'{"total":' + b"9" * 100_000 + b"}"),
    "a packed bomb": lambda caller: caller.answer(PACKED, b"Content-Encoding: deflate\r\n"),
    "a redirect": lambda caller: caller.send(
        b"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    ),
    "an odd redirect": lambda caller: caller.send(
        b"HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
    ),
    "too little": lambda caller: caller.send(OK + b"Content-Length: 99\r\n\r\n{}"),
    "a negative length": lambda caller: caller.send(OK + b"Content-Length: -1\r\n\r\n{}"),
    "no status": lambda caller: caller.send(b"\x00\xff\r\n\r\n"),
    "an odd status": lambda caller: caller.send(b"HTTP/1.1 99999999999999999999 x\r\n\r\n"),
    "nothing": lambda caller: None,
    "a refusal with signs": _refusal(reason="\x1b]0;x\x07a\nb", hint="\x9b31m", details=["\n\x1b"]),
    "a huge refusal": _refusal(reason="x" * 99_999, hint="y" * 99_999, details=["z"] * 9_999),
    "an odd refusal": _refusal(reason=None, hint={}, details=7),
    "no total": _page(total=None),
    "a total in words": _page(total="many"),
    "an infinite total": _page(total=float("inf")),
    "not a total": _page(total=float("nan")),
    "a total below zero": _page(total=-1),
    "items that are none": _page(items="x" * 1000),
    "the same page for ever": _page(total=100_000),
    "endless pages": _endless_pages,
    "an id that climbs": odd_id("../../../../tmp/x"),
    "an id that is a path": odd_id("/tmp/x"),
    "an id that is an option": odd_id("-rf"),
    "an id with signs": odd_id("\x1b[31m"),
    "an endless id": odd_id("x" * 5000),
    "an id that is a number": odd_id(7),  # type: ignore[arg-type]
}  # fmt: skip
"""Each ends by itself, or by the number of its bytes."""


@dataclass
class HostileServer:
    """Plays one manner for every connection."""

    url: str
    manner: Manner
    asked: list[str] = field(default_factory=list)


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = HostileServer(f"http://127.0.0.1:{listening.getsockname()[1]}", FAST["nothing"])

        def serve(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.settimeout(30)
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    head += piece
                path = head.split(b" ")[1].decode("latin-1")
                made.asked.append(path)
                made.manner(Caller(connection, path, ended))

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            ended.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
    thread.join()
