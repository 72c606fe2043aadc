"""The route that draws an address of this server as a QR code, for the camera of a phone."""

import io
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from andon.errors import Invalid, Unavailable
from andon.web.routes.api import ERRORS

MOST_CHARACTERS = 500


def routes() -> APIRouter:
    router = APIRouter(responses=ERRORS, tags=["board"])

    @router.get("/api/qr")
    async def qr_code(
        request: Request,
        link: Annotated[str, Query(max_length=MOST_CHARACTERS, description="of this server")],
    ) -> Response:
        """An address of this server as a QR code (SVG)."""
        places = [f"{scheme}://{request.headers.get('host')}/" for scheme in ("http", "https")]
        if not link.startswith(tuple(places)) or not link.isprintable():
            raise Invalid("only addresses of this server are drawn", hint=f"begin with {places[0]}")
        return Response(drawn(link), media_type="image/svg+xml")

    return router


def drawn(link: str) -> bytes:
    try:
        import segno
    except ImportError as exc:
        raise Unavailable("QR codes need the package segno", hint="pip install segno") from exc
    out = io.BytesIO()
    segno.make(link, error="l", micro=False).save(out, kind="svg", scale=4, border=2, light="white")
    return out.getvalue()
