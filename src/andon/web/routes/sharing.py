"""The route that draws an address of this server as a QR code, for the camera of a phone."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from andon.web.answers.qr_codes import check_own, drawn
from andon.web.routes.api import ERRORS

MOST_CHARACTERS = 500


def routes() -> APIRouter:
    router = APIRouter(responses=ERRORS, tags=["board"])

    @router.get("/api/qr")
    def qr_code(
        request: Request,
        link: Annotated[str, Query(max_length=MOST_CHARACTERS, description="of this server")],
    ) -> Response:
        """An address of this server as a QR code (SVG)."""
        check_own(request, link)
        return Response(drawn(link), media_type="image/svg+xml")

    return router
