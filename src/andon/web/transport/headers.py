"""The types of ASGI, headers, bodies, and answers for pages of other origins."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

# The types of ASGI.

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_VARY = b"vary"  # each says one more thing that the answer depends on
NO_STORE = (b"cache-control", b"no-store")


def with_headers(send: Send, more: Iterable[tuple[bytes, bytes]]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            names = {name.lower() for name, _ in message.get("headers", ())}
            added = [pair for pair in more if pair[0] == _VARY or pair[0] not in names]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return sending


def texts(headers: list[tuple[bytes, bytes]], name: bytes) -> tuple[str, ...]:
    return tuple(value.decode("latin-1").strip() for key, value in headers if key == name)


async def send_json(
    send: Send,
    status: int,
    body: bytes,
    more: Iterable[tuple[bytes, bytes]] = (),
    kind: str = "http.response",
) -> None:
    """Sends a whole response, which nobody may store."""
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        NO_STORE,
        *more,
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


async def read_body(receive: Receive) -> bytes | None:
    """Returns the body, whose size was checked before; None if the client disconnected."""
    parts = list[bytes]()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def until_disconnected(receive: Receive) -> None:
    """Waits until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


# Answers for pages of other origins that the settings allow.

PREFLIGHT_SECONDS = 600


def is_preflight(method: str, headers: list[tuple[bytes, bytes]]) -> bool:
    return method == "OPTIONS" and bool(texts(headers, b"access-control-request-method"))


async def answer_preflight(send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    """Answers what a page of an allowed origin may send; the request is checked when it comes."""
    more = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
        (b"content-length", b"0"),
        NO_STORE,
    ]
    if texts(headers, b"access-control-request-private-network"):
        more.append((b"access-control-allow-private-network", b"true"))
    await send({"type": "http.response.start", "status": 204, "headers": more})
    await send({"type": "http.response.body", "body": b""})


def shared_with(origin: str, send: Send) -> Send:
    """A send function that lets one other origin, which the settings name, read the answer."""
    private = tuple(pair for pair in SECURITY_HEADERS if not pair[0].startswith(b"cross-origin"))
    allowed = (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", b"retry-after"),
        (b"cross-origin-resource-policy", b"cross-origin"),
        (b"vary", b"Origin"),
    )
    return with_headers(send, (*private, *allowed))
