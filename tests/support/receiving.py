"""A receiver of exports on loopback, which answers as a test says and keeps what it got."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.waiting import wait_for


class Got(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


Reply = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, body: bytes = b"", **headers: str) -> Reply:
    """An answer as it should be."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def raw(content: bytes) -> Reply:
    """Any bytes, after which the connection is closed."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(content)
        handler.close_connection = True
        with suppress(OSError):
            handler.connection.shutdown(socket.SHUT_RDWR)

    return reply


class Receiver:
    """Answers with `replies` one after the other, and then with the last of them for ever."""

    def __init__(self, *replies: Reply, port: int = 0) -> None:
        self.got: list[Got] = []
        self.replies = [*replies] or [status(204)]
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                named = {k.lower(): v for k, v in self.headers.items()}
                receiver.got.append(Got(self.path, named, body))
                replies = receiver.replies
                with suppress(OSError):  # the sender did not wait
                    (replies.pop(0) if len(replies) > 1 else replies[0])(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.got]

    def wait(self, count: int) -> None:
        wait_for(lambda: len(self.got) >= count, what=f"request {count}")

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def receiving(*replies: Reply, port: int = 0) -> Iterator[Receiver]:
    receiver = Receiver(*replies, port=port)
    try:
        yield receiver
    finally:
        receiver.close()


def notifying(folder: Path, who: str, people: Receiver) -> str:
    """Returns a file of settings with a webhook."""
    file = folder / f"{who}.toml"
    url = f"http://127.0.0.1:{people.port}/{who}"
    file.write_text(f'[[alerts.notifier]]\nname = "people"\nkind = "webhook"\nurl = "{url}"\n')
    return str(file)
