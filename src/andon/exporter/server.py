"""A small HTTP server for `/metrics` and `/healthz`, and nothing else.

Built on `http.server`. Every connection has one request and a deadline, and a limited number of
threads answers them. When all of those are busy, the oldest connection is closed: a scrape takes
milliseconds, so the oldest one is the one that hangs.
"""

import errno
import ipaddress
import logging
import math
import socket
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase, BytesIO
from queue import SimpleQueue
from socketserver import TCPServer
from typing import Any

from msgspec import Struct

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid
from andon.exporter.exposition import CONTENT_TYPE
from andon.exporter.spreads import Service
from andon.version import __version__

# One HTTP request and its answer: only what a scraper needs, parsed strictly.

MOST_BYTES = 16_384
PLAIN = "text/plain; charset=utf-8"
END = b"\r\n\r\n"


class MalformedRequest(Exception):
    """The request is malformed."""


class HttpRequest(Struct, frozen=True):
    """What is requested; `host` is the name without its port."""

    method: str
    path: str
    host: str


class HttpAnswer(Struct, frozen=True):
    """The response."""

    status: int
    kind: str
    body: bytes

    @classmethod
    def plain(cls, status: int, text: str) -> "HttpAnswer":
        return cls(status, PLAIN, text.encode("utf-8", "replace"))

    @classmethod
    def of(cls, error: AndonError) -> "HttpAnswer":
        hint = f"hint: {error.hint}\n" if error.hint else ""
        return cls.plain(error.http_status, f"{error.reason}\n{hint}")


def receive(first: bytes, rest: BufferedIOBase) -> bytes:
    """The head of a request, given its first line; MalformedRequest if too long or incomplete."""
    head = first
    while not head.endswith(END):
        line = rest.readline(MOST_BYTES)
        head += line
        if not line or len(head) > MOST_BYTES:
            raise MalformedRequest
    return head.removesuffix(END)


def parse(head: bytes) -> HttpRequest:
    """Returns the first line and the Host; a second Host or a folded line is malformed."""
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1].startswith("/"):
        raise MalformedRequest
    hosts = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise MalformedRequest
        if name.lower() == "host":
            hosts.append(value.strip())
    if len(hosts) > 1:
        raise MalformedRequest
    return HttpRequest(
        parts[0], parts[1].partition("?")[0], _without_port(hosts[0] if hosts else "")
    )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


log = logging.getLogger("andon.exporter")

PLACES = 32  # threads at most
MOST_OPEN = 2 * PLACES  # connections, including those that wait for a thread
SILENCE_SECONDS = 5.0

Text = Callable[[Service], str]


class MetricsServer(TCPServer):
    """Serves a text that is rendered for every request; `start` returns, `stop` waits. The port is
    open before: what the text is made of can be opened after it."""

    request_queue_size = 64
    allow_reuse_address = True
    deadline_seconds = 10.0
    poll_seconds = 0.1  # how long `stop` may have to wait; a poll costs about 20 µs
    text: Text
    _dropped: Callable[[], int]

    def __init__(self, host: str, port: int) -> None:
        self.local_only = is_loopback(host)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._counting = threading.Lock()
        self._scrapes = self._failures = 0
        self._seconds = 0.0
        self._open: dict[socket.socket, float] = {}
        self._thread: threading.Thread | None = None
        self._waiting: SimpleQueue[tuple[socket.socket, Any] | None] = SimpleQueue()
        self._workers = 0
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as exc:
            raise _why_not(host, port, exc) from exc

    @property
    def port(self) -> int:
        """The actual port, also if port 0 was requested."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    def start(self, text: Text, dropped: Callable[[], int]) -> None:
        self.text, self._dropped = text, dropped
        self._thread = threading.Thread(
            target=self.serve_forever, args=(self.poll_seconds,), name="metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stops listening and closes every open connection. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self.shutdown()
            thread.join()
        self.server_close()
        for connection in self._connections():
            _cut(connection)
        for _ in range(self._workers):
            self._waiting.put(None)

    def service(self) -> Service:
        with self._counting:
            return Service(self._dropped(), self._scrapes, self._failures, self._seconds)

    def count(self, seconds: float = 0.0, failed: bool = False) -> None:
        with self._counting:
            self._seconds += seconds
            self._failures += failed
            self._scrapes += not failed

    # Called by the parent class, in the listening thread.

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            number = len(self._open)
            oldest = min(self._open, key=lambda c: self._open[c]) if number >= PLACES else None
            if number < MOST_OPEN:
                self._open[request] = time.monotonic()
        if oldest is not None:
            self._give_up(oldest)
        if number < MOST_OPEN:
            try:
                self._keep_workers(number + 1)
            except RuntimeError:  # the system has no thread left, and no other can answer
                with self._counting:
                    del self._open[request]
                raise
            self._waiting.put((request, client_address))
        else:
            self.handle_error(request, client_address)
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Closes overdue connections after every poll, also of clients that trickle bytes."""
        late = time.monotonic() - self.deadline_seconds
        for connection in self._connections():
            if self._open.get(connection, late) < late:
                self._give_up(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Counts errors; a client that disconnected is not logged."""
        self.count(failed=True)

    def _keep_workers(self, wanted: int) -> None:
        """Keeps as many threads as connections were ever open at once. A thread per scrape would
        cost more than the scrape, and those of a ThreadPoolExecutor keep a program from exiting."""
        if self._workers < min(wanted, PLACES):
            thread = threading.Thread(target=self._work, name="metrics worker", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                if not self._workers:
                    raise
            else:
                self._workers += 1

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            self._answer(*job)

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - one client must not affect another
            self.handle_error(request, client_address)
        finally:
            with self._counting:
                self._open.pop(request, None)
            self.shutdown_request(request)

    def _give_up(self, connection: socket.socket) -> None:
        """Closes a connection; it still counts until its thread ends, and is not chosen again."""
        with self._counting:
            if connection in self._open:
                self._open[connection] = math.inf
        _cut(connection)

    def _connections(self) -> list[socket.socket]:
        with self._counting:
            return list(self._open)


class _Handler(BaseHTTPRequestHandler):
    """One request, then the connection is closed: an idle scraper uses no thread."""

    server: MetricsServer
    protocol_version = request_version = "HTTP/1.1"
    timeout = SILENCE_SECONDS
    raw_requestline: bytes
    received: HttpRequest
    command = ""

    def setup(self) -> None:
        super().setup()
        self.wfile = self._written = BytesIO()

    def finish(self) -> None:
        """Sends head and body together."""
        self.connection.sendall(self._written.getvalue())
        self.rfile.close()

    def parse_request(self) -> bool:
        """Parses the request strictly: http.server's own parser accepts folded lines, two Hosts
        and an incomplete head, and needs a fifth of a scrape's time."""
        self.close_connection = True
        try:
            self.received = parse(receive(self.raw_requestline, self.rfile))
        except MalformedRequest:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        self.command = self.received.method
        return True

    def _serve(self) -> None:
        began = time.perf_counter()
        answer = self._answer()
        failed = answer.status != HTTPStatus.OK
        if failed or answer.kind is CONTENT_TYPE:  # before it is sent: the next scrape reports it
            self.server.count(time.perf_counter() - began, failed)
        self._send(answer)

    do_GET = do_HEAD = _serve  # noqa: N815 - the names that http.server looks for

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers requests that http.server refuses: unsupported methods, malformed requests."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self.server.count(failed=True)
            self._send(HttpAnswer.plain(405, "only GET and HEAD are allowed\n"))
        else:
            self._send(HttpAnswer.plain(400, "malformed HTTP request\n"))

    def version_string(self) -> str:
        return f"andon/{__version__}"

    def log_error(self, *args: Any) -> None:
        """Does not log: a client that neither sends nor reads is only counted."""
        self.server.count(failed=True)

    def log_request(self, *args: Any) -> None:
        """Does not log: a line per scrape would be noise."""

    def _answer(self) -> HttpAnswer:
        try:
            return self._content()
        except AndonError as error:
            return HttpAnswer.of(error)
        except Exception:
            log.exception("a scrape failed")
            return HttpAnswer.plain(500, "the metrics could not be rendered\n")

    def _content(self) -> HttpAnswer:
        if self.received.path == "/healthz":
            return HttpAnswer.plain(200, "ok\n")
        if self.server.local_only and not is_loopback(self.received.host):
            raise Denied("the Host header is not a loopback name",
                         hint="use http://127.0.0.1 or http://localhost")  # fmt: skip
        if self.received.path != "/metrics":
            hint = "the metrics are at /metrics"
            raise Gone(f"not found: {self.received.path[:80]!r}", hint=hint)
        text = self.server.text(self.server.service())
        return HttpAnswer(200, CONTENT_TYPE, text.encode("utf-8", "replace"))

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


@lru_cache(maxsize=64)  # a scraper uses one name, and parsing an address takes 12 µs
def is_loopback(host: str) -> bool:
    """Whether it is a loopback address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was already closed


def _why_not(host: str, port: int, exc: OSError | OverflowError) -> AndonError:
    number = exc.errno if isinstance(exc, OSError) else None
    if number == errno.EADDRINUSE:
        who = f"to see by what: ss -ltnp 'sport = :{port}'; or use another --port"
        return Conflict(f"port {port} on {host} is in use", hint=who)
    if number == errno.EACCES:
        return Denied(f"no permission to use port {port}", hint="use a port of 1024 or above")
    if isinstance(exc, OverflowError):
        return Invalid(f"{port} is not a port", hint="0 to 65535")
    return Invalid(f"{host} is not an address of this machine", hint="try --host 127.0.0.1")
