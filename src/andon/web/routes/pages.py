"""The pages of the server: the board's files, and /docs."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from andon.web.answers.api_page import api_page

# The board's files; if the package was built without them, a page that says how to get them.

STATIC = Path(str(files("andon.web") / "static"))
_NAMED_BY_CONTENT = "assets/"
_FOREVER = "public, max-age=31536000, immutable"
_WITHOUT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>andon</title><h1>andon is running without its board</h1>
<p>This package was built without the board. To get it:</p>
<ul>
<li>from PyPI: <code>pip install --force-reinstall andon</code></li>
<li>from a clone: <code>python3 frontend/build.py</code>
 (Node 18 or newer; ANDON_BUILD_BOARD must not be 0)</li>
</ul>
<p>Everything else is available: <a href="/api/snapshot">/api/snapshot</a>,
<a href="/metrics">/metrics</a>, <a href="/docs">the API</a>,
and in a terminal <code>andon</code>.</p></html>
"""


class Compressed(StaticFiles):
    """Serves files compressed at build time, and lets browsers cache what never changes."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        packed = f"{path}.gz"
        small = not path.endswith(".gz") and _takes_gzip(scope) and self.lookup_path(packed)[1]
        answer = await super().get_response(packed if small else path, scope)
        if small:
            answer.headers["content-encoding"] = "gzip"
            kind = "css" if path.endswith(".css") else "javascript"
            answer.headers["content-type"] = f"text/{kind}"
        if path.startswith(_NAMED_BY_CONTENT) and answer.status_code == 200:
            answer.headers["cache-control"] = _FOREVER
            answer.headers["vary"] = "Accept-Encoding"
        return answer


def _takes_gzip(scope: Scope) -> bool:
    return any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])


def add_board(api: FastAPI, folder: Path = STATIC) -> None:
    """Add the page at / and its files."""
    there = (folder / "index.html").exists()

    def page() -> Response:
        return FileResponse(folder / "index.html") if there else HTMLResponse(_WITHOUT)

    def icon() -> Response:
        path = folder / "icon.svg"
        return FileResponse(path) if path.exists() else Response(status_code=204)

    api.get("/", include_in_schema=False)(page)
    api.get("/favicon.ico", include_in_schema=False)(icon)
    if there:
        api.mount("/static", Compressed(directory=folder), name="static")


# /docs: the API as a page, from the description itself; it loads nothing from anywhere else.


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
