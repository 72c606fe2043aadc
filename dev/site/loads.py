"""`python -m dev.site.loads FOLDER`: fails if a page of the built site would load something from
elsewhere, or if it has no index to search in."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
HARMLESS = frozenset({"canonical", "next", "prev", "edit"})
STYLE_URL = re.compile(r"(?:url\(|@import )[\s\"']*(https?:)?//")


class Loads(HTMLParser):
    """What a page loads: links of people to other sites are none of that."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADED.get(tag, "")) or ""
        if re.match(r"(?:https?:)?//", address) and given.get("rel") not in HARMLESS:
            self.found.append(address)


def loads(folder: Path) -> dict[str, list[str]]:
    """What each file of a site would load from elsewhere."""
    found = {}
    for path in folder.rglob("*"):
        text = path.read_text("utf-8") if path.suffix in (".html", ".css") else ""
        page = Loads()
        if path.suffix == ".html":
            page.feed(text)
        found[str(path)] = [*page.found, *(one[0] for one in STYLE_URL.finditer(text))]
    return {path: addresses for path, addresses in found.items() if addresses}


def main() -> None:
    folder = Path(sys.argv[1])
    for path, addresses in loads(folder).items():
        print(f"{path} loads {', '.join(sorted(set(addresses)))}", file=sys.stderr)
    index = folder / "search/search_index.js"
    if not index.exists():
        print(f"{index} is missing: pages that are opened as files cannot be searched")
    pages = len(list(folder.rglob("*.html")))
    print(f"{pages} pages in {folder}: open {folder}/index.html")
    sys.exit(bool(loads(folder)) or not index.exists())


if __name__ == "__main__":
    main()
