"""A real HTTP server on loopback that takes what is posted, or does not."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Receiver(BaseHTTPRequestHandler):
    """Takes whatever is posted."""

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Listening)
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if server.manner == "never":
            server.ended.wait()
            return
        if server.manner == "well":
            server.heard.append(body)
        self.send_response(200 if server.manner == "well" else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name)
        """The test's output is no place for it."""


class Listening(ThreadingHTTPServer):
    """A real HTTP server on loopback."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.heard: list[str] = []
        self.manner = "well"
        self.ended = threading.Event()

    def behave(self, manner: str) -> None:
        self.manner = manner


@contextmanager
def listener() -> Iterator[Listening]:
    """Such a server, for as long as the context lasts."""
    server = Listening()
    thread = threading.Thread(target=server.serve_forever, args=(0.002,), daemon=True)
    thread.start()
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def listening() -> Iterator[Listening]:
    with listener() as server:
        yield server
