"""Headers of requests and answers."""

from collections.abc import Iterable

from andon.web.transport.asgi import Message, Send

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
