"""A connection whose whole exchange ends at one moment, however slowly its peer speaks."""

import socket
import ssl
import time
from http.client import HTTPConnection
from typing import Any

MOST_ADDRESSES = 8  # of one name; each is tried until the time is over


class _TimedSocket(socket.socket):
    """Every call waits for what is left of the time, and no longer."""

    deadline = 0.0

    def recv_into(self, *arguments: Any, **named: Any) -> int:
        self.settimeout(left(self.deadline))
        return super().recv_into(*arguments, **named)

    def sendall(self, *arguments: Any, **named: Any) -> None:
        self.settimeout(left(self.deadline))
        super().sendall(*arguments, **named)


class _TimedTLSSocket(_TimedSocket, ssl.SSLSocket):
    """The same with TLS; its handshake is one call."""


class TimedConnection(HTTPConnection):
    """HTTP, or HTTPS with a verified certificate, until a moment of the monotonic clock."""

    def __init__(self, host: str, port: int, deadline: float, encrypted: bool) -> None:
        super().__init__(host, port)
        self.deadline, self.encrypted = deadline, encrypted
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

    def _with_tls(self, plain: _TimedSocket) -> _TimedTLSSocket:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        context.sslsocket_class = _TimedTLSSocket
        plain.settimeout(left(self.deadline))
        made = context.wrap_socket(plain, server_hostname=self.host)
        assert isinstance(made, _TimedTLSSocket)
        made.deadline = self.deadline
        return made


def left(deadline: float) -> float:
    """Seconds; raises TimeoutError if there are none."""
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
