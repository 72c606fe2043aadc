"""Pictures of the notebook that `make frameworks` executed, as a light and as a dark page show it.

python -m dev.notebook_picture [DIR]    writes notebook-light.png and notebook-dark.png there
"""

import html
import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser
from tests.integration.browser import chromium

BOOK = Path(".build/notebook.ipynb")
THEMES = {"light": ("true", "#fff", "#17191b"), "dark": ("false", "#111315", "#ecebe6")}
MOST_CELLS = 10
CELLS_OF_DOCS = (0, 1, 3, 5, 6)


def page(book: dict[str, Any], theme: str) -> str:
    """The cells and what they show, between the marks of JupyterLab's theme."""
    light, ground, ink = THEMES[theme]
    cells = "".join(map(_cell, book["cells"][:MOST_CELLS]))
    style = f"background:{ground};color:{ink};font:14px sans-serif;margin:16px;width:1080px"
    return f'<body data-jp-theme-light="{light}" style="{style}">{cells}</body>'


def _cell(cell: dict[str, Any]) -> str:
    source = html.escape("".join(cell["source"]))
    shown = "".join(map(_output, cell["outputs"]))
    return f'<pre style="opacity:.8;border-left:3px solid;padding-left:8px">{source}</pre>{shown}'


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return "".join(data["text/html"])
    text = output.get("evalue") or "".join(data.get("text/plain", output.get("text", "")))
    return f"<pre>{html.escape(text)}</pre>"


def of_docs(browser: Browser, path: Path) -> None:
    """A few cells, for the docs."""
    book = json.loads(BOOK.read_text(encoding="utf-8"))
    cells = [book["cells"][number] for number in CELLS_OF_DOCS]
    shown = browser.new_page(color_scheme="light", viewport={"width": 1120, "height": 300})
    shown.set_content(page({"cells": cells}, "light"))
    shown.screenshot(path=path, full_page=True)


def main(folder: Path) -> None:
    book = json.loads(BOOK.read_text(encoding="utf-8"))
    with chromium() as browser:
        for theme in THEMES:
            shown = browser.new_page(color_scheme=theme, viewport={"width": 1120, "height": 800})
            shown.set_content(page(book, theme))
            shown.screenshot(path=folder / f"notebook-{theme}.png", full_page=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".build"))
