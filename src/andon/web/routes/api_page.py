"""/docs: the API as a page, from the description itself; it loads nothing from anywhere else."""

from functools import cache
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from andon.web.answers.api_page import api_page


def add_api_page(api: FastAPI) -> None:
    """Add the page and its style; both are the same for everyone, and made once."""

    @cache
    def page() -> str:
        return api_page(api.openapi())

    def docs() -> Response:
        return HTMLResponse(page())

    def style() -> Response:
        return Response(_style(), media_type="text/css")

    api.get("/docs", include_in_schema=False)(docs)
    api.get("/docs/style.css", include_in_schema=False)(style)


@cache
def _style() -> str:
    return (files("andon.web.answers") / "api_page.css").read_text(encoding="utf-8")
