"""Addresses of this server as QR codes, for the camera of a phone."""

import io
from typing import Any

from fastapi import Request

from andon.errors import Invalid, Unavailable


def check_own(request: Request, link: str) -> None:
    """Refuses what does not begin with the address at which the caller reached this server."""
    places = [f"{scheme}://{request.headers.get('host')}/" for scheme in ("http", "https")]
    if not link.startswith(tuple(places)) or not link.isprintable():
        raise Invalid("only addresses of this server are drawn", hint=f"begin with {places[0]}")


def drawn(link: str) -> bytes:
    out = io.BytesIO()
    _code(link).save(out, kind="svg", scale=4, border=2, light="white")
    return out.getvalue()


def squares(link: str) -> list[str]:
    """The rows of a QR code: 1 is dark. A link with a secret is drawn in the page itself, because
    every address that a browser asks for may be logged."""
    return ["".join(map(str, row)) for row in _code(link).matrix]


def _code(link: str) -> Any:
    try:
        import segno
    except ImportError as exc:
        raise Unavailable("QR codes need the package segno", hint="pip install segno") from exc
    return segno.make(link, error="l", micro=False)
