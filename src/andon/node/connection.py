"""A connection whose whole exchange ends at one moment, however slowly its peer speaks."""

import hashlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.client import RemoteDisconnected as RemoteDisconnected  # by TLS, without TLS
from typing import Any, Generic, TypeVar

NOT_PINNED = "it has another certificate than the one that was pinned"
NO_TLS = "WRONG_VERSION_NUMBER"  # what OpenSSL calls an answer in plain text
MOST_ADDRESSES = 8  # of one name; each is tried until the time is over
FAILURES = (OSError, HTTPException, ValueError)
"""What a request can raise besides andon's errors, when no answer arrived."""


class _TimedSocket(socket.socket):
    """A socket whose every call waits at most until the deadline."""

    deadline = 0.0

    def recv_into(self, *arguments: Any, **named: Any) -> int:
        self.settimeout(left(self.deadline))
        return super().recv_into(*arguments, **named)

    def sendall(self, *arguments: Any, **named: Any) -> None:
        self.settimeout(left(self.deadline))
        super().sendall(*arguments, **named)


class _TimedTLSSocket(_TimedSocket, ssl.SSLSocket):
    """The same socket with TLS; its handshake is one call."""


class TimedConnection(HTTPConnection):
    """An HTTP connection, or HTTPS with a verified certificate, with a monotonic deadline."""

    def __init__(
        self,
        host: str,
        port: int,
        deadline: float,
        encrypted: bool,
        authority: str | None = None,
        pin: str | None = None,
    ) -> None:
        """`authority` is a file with the certificates that are trusted; None: the usual. With
        `pin` the peer's certificate must have this fingerprint, whoever signed it."""
        super().__init__(host, port)
        self.deadline, self.encrypted = deadline, encrypted
        self._authority, self._pin = authority, pin
        if encrypted:
            self.default_port = 443  # a request names the port only if it is another

    def connect(self) -> None:
        plain = _connected(self.host, self.port, self.deadline)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = self._with_tls(plain) if self.encrypted else plain
        except BaseException:
            plain.close()
            raise

    def renew(self, deadline: float) -> None:
        """Sets another deadline for the next exchange on the same connection."""
        self.deadline = deadline
        if isinstance(self.sock, _TimedSocket):
            self.sock.deadline = deadline

    def _with_tls(self, plain: _TimedSocket) -> _TimedTLSSocket:
        context = ssl.create_default_context(cafile=self._authority)
        context.set_alpn_protocols(["http/1.1"])
        context.sslsocket_class = _TimedTLSSocket
        if self._pin is not None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        plain.settimeout(left(self.deadline))
        plain.getpeername()  # of one that is reset already, ssl would leave the socket open
        made = context.wrap_socket(plain, server_hostname=self.host)
        assert isinstance(made, _TimedTLSSocket)
        if self._pin is not None and fingerprint(made.getpeercert(True) or b"") != self._pin:
            made.close()
            raise OSError(NOT_PINNED)
        made.deadline = self.deadline
        return made


C = TypeVar("C", bound=TimedConnection)
T = TypeVar("T")


class ConnectionPool(Generic[C]):
    """Connections to one server that are used again; safe to use and close from any thread."""

    def __init__(self, opened: Callable[[float], C]) -> None:
        """`opened` connects, with a deadline."""
        self._opened, self._free = opened, deque[C]()

    def exchange(self, deadline: float, use: Callable[[C], T]) -> tuple[T, bool]:
        """Returns what `use` returns, and whether an earlier attempt failed on a reused connection,
        so that the server may have got the request twice."""
        again = False
        while (connection := self._taken()) is not None:
            connection.renew(deadline)
            with suppress(OSError, HTTPException):
                return self._used(connection, use), again
            again = True
        return self._used(self._opened(deadline), use), again

    def _used(self, connection: C, use: Callable[[C], T]) -> T:
        try:
            found = use(connection)
        except BaseException:
            connection.close()
            raise
        self._free.append(connection)
        return found

    def _taken(self) -> C | None:
        with suppress(IndexError):
            return self._free.pop()
        return None

    def close(self) -> None:
        while (connection := self._taken()) is not None:
            connection.close()


def fingerprint(certificate: bytes) -> str:
    """Returns the fingerprint of a certificate in its binary form."""
    return f"sha256:{hashlib.sha256(certificate).hexdigest()}"


def left(deadline: float) -> float:
    """Returns the seconds left; raises TimeoutError if there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


def _connected(host: str, port: int, deadline: float) -> _TimedSocket:
    failure: OSError = OSError("the name has no address")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, address in found[:MOST_ADDRESSES]:
        made = _TimedSocket(family, kind, protocol)
        made.deadline = deadline
        try:
            made.settimeout(left(deadline))
            made.connect(address)
        except OSError as exc:
            made.close()
            failure = exc
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure


def plain_message(exc: BaseException) -> str:
    """Returns `Connection refused` and not `[Errno 111] Connection refused`."""
    if certificate := getattr(exc, "verify_message", ""):
        return f"its certificate is refused: {certificate}"
    if isinstance(exc, TimeoutError):
        return "it did not answer in time"
    if getattr(exc, "reason", None) == NO_TLS:
        return "it does not speak HTTPS"
    known = type(exc).__module__ in ("builtins", "socket")
    plain = isinstance(exc, OSError) and known and exc.strerror
    return str(plain or str(exc) or type(exc).__name__)
