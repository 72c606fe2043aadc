"""All pictures of the docs, made from the demo's lab and `andon top` as they are now.

python -m dev.pictures              writes docs/pictures/*.png and top.svg
python -m dev.pictures --all DIR    every page: both themes, 4K and a phone

With Pillow installed the pictures are reduced to 256 colours, which makes them a third as large.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dev import picture_of_top
from playwright.sync_api import Browser, Page, expect
from tests.integration.board import opened, tiles
from tests.integration.browser import chromium
from tests.integration.demo import Demo, running_demo

OUT = Path("docs/pictures")
DEVICES, HOT = 8, 2
TALLEST = 1400
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {**WIDE, "color_scheme": "light"},
    "dark": {**WIDE, "color_scheme": "dark"},
    "4k": {"viewport": {"width": 3840, "height": 2160}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


class Picture(NamedTuple):
    """A page in a look; `whole` is as much of it as fits into a picture."""

    name: str
    page: str
    look: str = "light"
    whole: bool = True


DOCS = (
    Picture("board", "", whole=False),
    Picture("board-dark", "", "dark", whole=False),
    Picture("charts", "charts?seconds=86400", whole=False),
    Picture("device", "device/{hot}?seconds=7200"),
    Picture("alerts", "alerts"),
    Picture("jobs", "jobs", whole=False),
    Picture("runs", "runs", whole=False),
    Picture("leases", "leases", whole=False),
    Picture("estimate", "estimate"),
)
PAGES = {
    "board": "", "charts": "charts?seconds=86400", "device": "device/{hot}?seconds=7200",
    "alerts": "alerts", "processes": "processes", "jobs": "jobs", "job": "jobs/{job}",
    "runs": "runs", "run": "runs/{run}", "leases": "leases", "estimate": "estimate",
    "user": "user/alice", "health": "health", "wall": "wall",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR", help="every page in every look")
    folder = parser.parse_args().all
    wanted = DOCS
    if folder is not None:
        wanted = tuple(
            Picture(f"{name}-{look}", page, look, whole=look != "4k")
            for name, page in PAGES.items()
            for look in LOOKS
        )
    else:
        picture_of_top.main(OUT / "top.svg")
    out: Path = folder or OUT
    out.mkdir(exist_ok=True, parents=True)
    with running_demo() as demo, chromium() as browser:
        known = names_in(demo)
        wait_until_hot(demo)
        for one in wanted:
            with window(browser, demo, one.look) as page:
                page.goto(f"{demo.url}/#/{one.page.format(**known)}")
                if one.page.startswith("estimate"):
                    page.get_by_label("model", exact=True).fill("llama-3-70b")
                save(page, out / f"{one.name}.png", one.whole)


def names_in(demo: Demo) -> dict[str, str]:
    """The names of a GPU, a job and a run that show most."""
    jobs = demo.get("/api/jobs?state=running")["jobs"]
    runs = demo.get("/api/runs?group=lr-sweep&state=succeeded")["items"]
    hot = demo.get("/api/snapshot")["devices"][HOT]["uuid"]
    return {"hot": hot, "job": str(jobs[0]["number"]), "run": runs[0]["id"]}


def wait_until_hot(demo: Demo) -> None:
    """The hot GPU pauses now and then, and cools down."""
    while demo.get("/api/board")["devices"][HOT]["lamp"] != "red":
        time.sleep(2)


@contextmanager
def window(browser: Browser, demo: Demo, look: str) -> Iterator[Page]:
    with opened(browser, **LOOKS[look]) as seen:
        seen.page.add_init_script("localStorage.setItem('andon.tour', 'seen')")
        seen.page.goto(demo.url)
        expect(tiles(seen.page)).to_have_count(DEVICES)
        yield seen.page


def save(page: Page, path: Path, whole: bool) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(2500)
    if whole and page.viewport_size is not None:
        last = "one => Math.ceil(one.lastElementChild.getBoundingClientRect().bottom)"
        foot = page.locator("main").evaluate(last)
        height = min(TALLEST, max(300, int(foot) + 45))
        page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
        page.wait_for_timeout(800)
    page.screenshot(path=path)
    reduce(path)
    print(f"{path}: {path.stat().st_size // 1024} KiB")


def reduce(path: Path) -> None:
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
