"""Answers for pages of other origins that the settings allow."""

from andon.web.transport.asgi import Send
from andon.web.transport.headers import NO_STORE, SECURITY_HEADERS, texts, with_headers

PREFLIGHT_SECONDS = 600


def is_preflight(method: str, headers: list[tuple[bytes, bytes]]) -> bool:
    return method == "OPTIONS" and bool(texts(headers, b"access-control-request-method"))


async def answer_preflight(send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    """Answers what a page of an allowed origin may send; the request is checked when it comes."""
    more = [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, DELETE"),
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
