"""Accepts connections in place of asyncio's own server.

That one counts nothing, creates a transport and a protocol for every connection, and waits a minute
for a TLS handshake. Here a connection is counted first, and until it has sent something it is only
a socket: thousands of silent ones cost one descriptor each.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from andon.access.gate import FULL, FULL_SECONDS
from andon.access.quotas import ConnectionUse
from andon.web.answers.problems import problem
from andon.web.transport.places import Places, Seat
from andon.web.transport.turns import LONGEST_HEAD, RequestTurns

log = logging.getLogger("andon.web")

OWED_SECONDS = 10.0  # from connecting, for the TLS handshake and a complete request
AT_ONCE = 64  # accepted per turn of the loop
AGAIN_SECONDS = 0.2  # until accepting is retried when descriptors run out
CLOSING_SECONDS = 2.0  # for the end of a TLS connection
LEAST_SECONDS = 0.05
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_BODY = problem(FULL.status, FULL.reason, FULL.hint)
TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: %d\r\n"
    b"cache-control: no-store\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
) % (FULL_SECONDS + 1, len(_BODY), _BODY)

Connect = Callable[[Seat], asyncio.Protocol]


class AcceptedSocket(socket.socket):
    """A socket whose seat is released when its descriptor is closed, whoever closes it."""

    __slots__ = ("seat",)

    seat: Seat

    def close(self) -> None:
        super().close()
        self.seat.leave()


class Acceptor:
    """Accepts connections from one listening socket until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        places: Places,
        connect: Connect,
        context: ssl.SSLContext | None = None,
        turns: RequestTurns | None = None,
        owed_seconds: float = OWED_SECONDS,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self._listening, self._places = listening, places
        self._connect, self._context = connect, context
        self._turns = turns or RequestTurns()
        self._owed_seconds, self._again_seconds = owed_seconds, again_seconds
        self._kind = (listening.family, listening.type, listening.proto)
        self._loop = asyncio.get_running_loop()
        self._silent: dict[Seat, AcceptedSocket] = {}
        self._joining: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Stop accepting, and close connections that have not begun; the server has the others."""
        self._loop.remove_reader(self._listening)
        if self._timer is not None:
            self._timer.cancel()
        for seat in list(self._silent):
            seat.end()
        for task in self._joining:
            task.cancel()

    def _listen(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                self._pause(exc)
                return
            self._arrived(accepted)

    def _pause(self, exc: OSError) -> None:
        """Pauses accepting while descriptors are short: the socket stays ready, and retrying at
        once would spin."""
        if exc.errno not in _SHORT:
            raise exc
        log.error("cannot accept connections: %s", exc.strerror)
        self._loop.remove_reader(self._listening)
        self._loop.call_later(self._again_seconds, self._listen)

    def _arrived(self, plain: socket.socket) -> None:
        plain.setblocking(False)
        accepted = AcceptedSocket(*self._kind, fileno=plain.detach())
        now = self._loop.time()
        gone: list[bool] = []
        seat = accepted.seat = self._places.arrive(lambda: gone.append(True), now)
        if gone:  # all are in use, and it was the one to give way
            self._turn_away(accepted)
            return
        seat.end = lambda: self._end_silent(seat)
        self._silent[seat] = accepted
        # By number: given an unknown socket, a selector builds the text of its whole map.
        self._loop.add_reader(accepted.fileno(), self._readable, seat)
        if self._timer is None:
            self._timer = self._loop.call_at(now + self._owed_seconds, self._expire)

    def _readable(self, seat: Seat) -> None:
        """Handles the first bytes of a connection, or its end."""
        accepted = self._silent[seat]
        try:
            begun = accepted.recv(LONGEST_HEAD, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            begun = b""
        if not begun:
            seat.end()
            return
        self._loop.remove_reader(accepted.fileno())
        seat.begin(lambda: self._end_silent(seat))
        if self._context is None and self._turns.is_first(begun):
            self._join(seat)
        else:
            self._turns.wait(lambda: self._join(seat))

    def _join(self, seat: Seat) -> None:
        """Hands the connection to asyncio: the TLS handshake if there is one, then the protocol."""
        accepted = self._silent.pop(seat, None)
        if accepted is None:
            return  # it was closed while it waited for its turn
        seat.has_turn = self._context is None
        left = max(LEAST_SECONDS, seat.arrived_at + self._owed_seconds - self._loop.time())
        secured = self._context is not None
        task: asyncio.Task[object] = self._loop.create_task(
            self._loop.connect_accepted_socket(
                lambda: self._connect(seat),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=left if secured else None,
                ssl_shutdown_timeout=CLOSING_SECONDS if secured else None,
            )
        )
        seat.begin(lambda: _cancel(task))
        self._joining.add(task)
        task.add_done_callback(lambda done: self._joined(done, accepted))

    def _joined(self, task: asyncio.Task[object], accepted: AcceptedSocket) -> None:
        """Ends a connection whose handshake failed; not logged: any client can cause one."""
        self._joining.discard(task)
        failed = None if task.cancelled() else task.exception()
        if task.cancelled() or failed is not None:
            accepted.close()
        if failed is not None and not isinstance(failed, OSError):  # TLS errors are among these
            log.error("a connection failed", exc_info=failed)

    def _end_silent(self, seat: Seat) -> None:
        accepted = self._silent.pop(seat, None)
        if accepted is not None:
            self._loop.remove_reader(accepted.fileno())
            self._turn_away(accepted)

    def _turn_away(self, accepted: AcceptedSocket) -> None:
        """Refuses a connection; a client that has sent a request gets the reason. Unread input
        would reset the connection."""
        if self._context is None:
            with suppress(OSError):
                accepted.recv(LONGEST_HEAD)
                accepted.send(TURNED_AWAY)
        accepted.close()

    def _expire(self) -> None:
        """Closes silent connections with one timer for all: the oldest is due first."""
        self._timer = None
        now = self._loop.time()
        while (oldest := self._places.oldest(ConnectionUse.SILENT)) is not None:
            due = oldest.arrived_at + self._owed_seconds
            if due > now:
                self._timer = self._loop.call_at(due, self._expire)
                return
            oldest.end()


def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
