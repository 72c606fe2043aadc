"""A small HTTP server for one text: `/metrics`, `/healthz`, and nothing else.

Every connection has one request, one thread and a deadline. When all places are taken, the oldest
connection gives up its own: a scrape takes milliseconds, so the oldest one is the one that hangs.
"""

import errno
import ipaddress
import logging
import socket
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from http import HTTPStatus
from socketserver import BaseRequestHandler, TCPServer
from typing import Any

from andon.errors import AndonError, Conflict, Denied, Gone, Invalid
from andon.exporter.exposition import CONTENT_TYPE
from andon.exporter.requests import PLAIN, Answer, Malformed, Request, parse, receive
from andon.exporter.spreads import Service

log = logging.getLogger("andon.exporter")

PLACES = 32
DEADLINE_SECONDS = 10.0
SILENCE_SECONDS = 5.0
POLL_SECONDS = 0.1  # how long `stop` may have to wait; a look costs some 20 µs

Text = Callable[[Service], str]
_READ_ONLY = Answer(405, PLAIN, "nothing can be changed here\n")


class MetricsServer(TCPServer):
    """Serves a text that is made anew for every request; `start` returns, `stop` waits."""

    request_queue_size = 64
    allow_reuse_address = True

    def __init__(self, host: str, port: int, text: Text, dropped: Callable[[], int]) -> None:
        self.local_only = is_loopback(host)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.text, self._dropped = text, dropped
        self._counting = threading.Lock()
        self._scrapes = self._failures = 0
        self._seconds = 0.0
        self._open: dict[socket.socket, float] = {}
        self._thread: threading.Thread | None = None
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as exc:
            raise _why_not(host, port, exc) from exc

    @property
    def port(self) -> int:
        """The port in use, also where any free one was asked for."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self.serve_forever, args=(POLL_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the listening and every open connection. May be called twice."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self.shutdown()
            thread.join()
        self.server_close()
        for connection in self._connections():
            _cut(connection)

    def service(self) -> Service:
        with self._counting:
            return Service(self._dropped(), self._scrapes, self._failures, self._seconds)

    def count(self, seconds: float = 0.0, failed: bool = False) -> None:
        with self._counting:
            self._seconds += seconds
            self._failures += failed
            self._scrapes += not failed

    # What the parent class calls, in the thread that listens.

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._counting:
            full = len(self._open) >= PLACES
            oldest = min(self._open, key=lambda c: self._open[c]) if full else None
            self._open[request] = time.monotonic()
        if oldest is not None:
            self._give_up(oldest)
        # A Thread object waits until its thread runs, which is a good part of a scrape's time.
        start_new_thread(self._answer, (request, client_address))

    def service_actions(self) -> None:
        """After every poll: a client that sends or takes a byte now and then is ended too."""
        late = time.monotonic() - DEADLINE_SECONDS
        for connection in self._connections():
            if self._open.get(connection, late) < late:
                self._give_up(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; the counter says how many."""
        self.count(failed=True)

    def _answer(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - one client's trouble must not be another's
            self.handle_error(request, client_address)
        finally:
            with self._counting:
                self._open.pop(request, None)
            self.shutdown_request(request)

    def _give_up(self, connection: socket.socket) -> None:
        with self._counting:
            self._open.pop(connection, None)
        _cut(connection)

    def _connections(self) -> list[socket.socket]:
        with self._counting:
            return list(self._open)


class _Handler(BaseRequestHandler):
    """One request, then the connection ends: an idle scraper holds no place."""

    server: MetricsServer
    request: socket.socket

    def handle(self) -> None:
        self.request.settimeout(SILENCE_SECONDS)
        try:
            asked = parse(receive(self.request))
        except Malformed:
            self.request.sendall(Answer(400, PLAIN, "this is no request\n").to_bytes())
            return
        began = time.perf_counter()
        answer = self._answer(asked) if asked.method in ("GET", "HEAD") else _READ_ONLY
        whole = answer.to_bytes(with_body=asked.method != "HEAD")
        failed = answer.status != HTTPStatus.OK
        if failed or answer.kind is CONTENT_TYPE:  # before it is sent: the next scrape tells it
            self.server.count(time.perf_counter() - began, failed)
        self.request.sendall(whole)

    def _answer(self, asked: Request) -> Answer:
        try:
            return Answer(200, *self._text(asked))
        except AndonError as error:
            return Answer.of(error)
        except Exception:
            log.exception("a scrape failed; the next one is tried")
            return Answer(500, PLAIN, "the values could not be rendered\n")

    def _text(self, asked: Request) -> tuple[str, str]:
        if asked.path == "/healthz":
            return PLAIN, "ok\n"
        if self.server.local_only and not is_loopback(asked.host):
            raise Denied("this address is not one of this machine's own names",
                         hint="ask for http://127.0.0.1 or http://localhost")  # fmt: skip
        if asked.path != "/metrics":
            hint = "the metrics are at /metrics"
            raise Gone(f"there is nothing at {asked.path[:80]!r}", hint=hint)
        return CONTENT_TYPE, self.server.text(self.server.service())


def is_loopback(host: str) -> bool:
    """Whether only this machine can mean itself by it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it went by itself


def _why_not(host: str, port: int, exc: OSError | OverflowError) -> AndonError:
    number = exc.errno if isinstance(exc, OSError) else None
    if number == errno.EADDRINUSE:
        who = f"see who: ss -ltnp 'sport = :{port}'; or choose another --port"
        return Conflict(f"port {port} of {host} is in use", hint=who)
    if number == errno.EACCES:
        return Denied(f"port {port} is not open to this user", hint="ports from 1024 on are")
    if isinstance(exc, OverflowError):
        return Invalid(f"{port} is not a port", hint="0 to 65535")
    return Invalid(f"{host} is not an address of this machine", hint="try --host 127.0.0.1")
