"""One HTTP request and its answer as bytes: the little that a scraper needs, read strictly."""

from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from socket import socket

from andon.errors import AndonError
from andon.version import __version__

MOST_BYTES = 16_384
PLAIN = "text/plain; charset=utf-8"
END = b"\r\n\r\n"


class Malformed(Exception):
    """This is not a request that can be answered."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for; `host` is the name without its port."""

    method: str
    path: str
    host: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back."""

    status: int
    kind: str
    text: str

    def to_bytes(self, with_body: bool = True) -> bytes:
        """Head and body in one piece, so that they leave together."""
        body = self.text.encode("utf-8", "replace")
        allow = "Allow: GET, HEAD\r\n" if self.status == 405 else ""
        head = (
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}\r\n"
            f"Server: andon/{__version__}\r\n"
            f"Date: {formatdate(usegmt=True)}\r\n"
            f"Content-Type: {self.kind}\r\n"
            f"Content-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            f"{allow}Connection: close\r\n\r\n"
        )
        return head.encode("ascii") + (body if with_body else b"")

    @classmethod
    def of(cls, error: AndonError) -> "Answer":
        hint = f"hint: {error.hint}\n" if error.hint else ""
        return cls(error.http_status, PLAIN, f"{error.reason}\n{hint}")


def receive(connection: socket) -> bytes:
    """The head of a request; Malformed where it is too long or ends early."""
    head = b""
    while END not in head:
        more = connection.recv(MOST_BYTES)
        head += more
        if not more or len(head) > MOST_BYTES:
            raise Malformed
    return head[: head.index(END)]


def parse(head: bytes) -> Request:
    """The first line and the Host; a second Host or a folded line is no request."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise Malformed
    hosts = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise Malformed
        if name.lower() == "host":
            hosts.append(value.strip())
    if len(hosts) > 1:
        raise Malformed
    return Request(words[0], words[1].partition("?")[0], _without_port(hosts[0] if hosts else ""))


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
