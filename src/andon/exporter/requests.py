"""One HTTP request and its answer: only what a scraper needs, parsed strictly."""

from io import BufferedIOBase

from msgspec import Struct

from andon.errors import AndonError

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
    """The first line and the Host; a second Host or a folded line is malformed."""
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
