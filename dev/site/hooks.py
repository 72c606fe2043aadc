"""Hooks of MkDocs: adds the generated pages, and makes links out of docs/ lead somewhere."""

import posixpath
import re
from pathlib import Path
from typing import Any

from dev.site.reference import PROJECT, made_pages
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from andon.cli.catalogue import COMMANDS, JOBS

BESIDE = 0.4
"""What the reference counts in a search, beside pages that explain."""
SHIM = "assets/iframe-worker.js"
"""Lets a page that is opened as a file search; installed beside the board's packages."""
SHIM_SOURCE = (
    Path(__file__).resolve().parents[2] / "frontend/node_modules/iframe-worker/shim/index.js"
)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The pages of the commands, by what they are for, take the place of `commands`."""
    groups = [
        {job: [f"reference/commands/{n}.md" for n, e in COMMANDS.items() if e.job == job]}
        for job in JOBS
    ]
    assert config.nav is not None
    config.nav = _replaced(config.nav, ["reference/commands/index.md", *groups])
    return config


def _replaced(nav: Any, commands: list[Any]) -> Any:
    if isinstance(nav, list):
        return [_replaced(one, commands) for one in nav]
    if isinstance(nav, dict):
        return {k: commands if v == "commands" else _replaced(v, commands) for k, v in nav.items()}
    return nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, text in made_pages().items():
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, SHIM, abs_src_path=str(SHIM_SOURCE)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Of what is not in the site the words of a link stay, with the path where it is."""
    place = page.file.src_uri
    if place.startswith(("reference/", "project/")):
        page.meta["search"] = {"boost": BESIDE}
    source = {to: name for name, to in PROJECT.items()}.get(place, f"docs/{place}")

    def led(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:") or place.startswith("reference/"):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path == "README.md":
            path, anchor = "docs/README.md", ""
        inside = PROJECT.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        if not inside:
            return words if words.strip("`") == target else f"{words} (`{path}`)"
        return f"[{words}]({posixpath.relpath(inside, posixpath.dirname(place) or '.')}{anchor})"

    return LINK.sub(led, markdown)
