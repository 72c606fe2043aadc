"""All pictures of the docs, made from the demo's lab and `andon top` as they are now.

python -m dev.pictures              writes docs/pictures/*.png and *.svg
python -m dev.pictures --all DIR    every page: both themes, 4K and a phone; three on paper
python -m dev.pictures --all DIR --only board,jobs    these pages alone

With Pillow installed the pictures are reduced to 256 colours, which makes them a third as large.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dev import notebook_picture, picture_of_terminal, picture_of_top
from dev.picture_of_fleet import playing_fleet
from playwright.sync_api import Browser, Page, expect
from tests.integration.board import opened, sign_in, tiles
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


OTHER_SIZES = {"1280": (1280, 800), "1920": (1920, 1080)}
"""The first page alone has these, as most people see it."""


class Picture(NamedTuple):
    """A page in a look; `whole` is as much of it as fits into a picture."""

    name: str
    page: str
    look: str = "light"
    whole: bool = True


DOCS: tuple[Picture, ...] = (
    Picture("board", "", whole=False),
    Picture("board-dark", "", "dark", whole=False),
    Picture("charts", "charts?seconds=86400", whole=False),
    Picture("device", "device/{hot}?seconds=7200"),
    Picture("alerts", "alerts"),
    Picture("jobs", "jobs", whole=False),
    Picture("runs", "runs", whole=False),
    Picture("sweep", "runs?group=lr-sweep"),
    Picture("leases", "leases", whole=False),
    Picture("estimate", "estimate"),
)
PAGES = {
    "board": "", "charts": "charts?seconds=86400", "device": "device/{hot}?seconds=7200",
    "alerts": "alerts", "alert": "alerts/{alert}", "processes": "processes",
    "process": "process/{process}", "jobs": "jobs", "chosen-job": "jobs?job={chosen}",
    "job": "jobs/{job}", "runs": "runs", "run": "runs/{run}", "overlay": "runs/{runs}",
    "sweep": "runs?group=lr-sweep", "scatter": "runs?group=lr-sweep&scatter=1",
    "leases": "leases", "estimate": "estimate", "user": "user/alice", "health": "health",
    "sign-in": "sign-in", "wall": "wall", "find": "", "help": "", "share": "", "tour": "",
}  # fmt: skip
ACTS: dict[str, Callable[[Page], object]] = {
    "estimate": lambda page: page.get_by_label("model", exact=True).fill("llama-3-70b"),
    "find": lambda page: find(page, "alice"),
    "help": lambda page: page.keyboard.press("?"),
    "share": lambda page: page.get_by_role("button", name="share this view").click(),
}
"""What is done on a page before its picture is taken."""

PAPER = ("board", "jobs", "device")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR", help="every page in every look")
    parser.add_argument("--only", default="", metavar="PAGE,…", help="these of all pages")
    options = parser.parse_args()
    out: Path = options.all or OUT
    out.mkdir(exist_ok=True, parents=True)
    if options.all is None:
        picture_of_top.main(OUT / "top.svg")
        picture_of_terminal.main(OUT)
    only = set(filter(None, options.only.split(",")))
    with chromium() as browser:
        if options.all is None or only != {"fleet"}:
            with running_demo() as demo:
                of_demo(browser, demo, out, DOCS if options.all is None else every(only))
                if options.all is not None and not only:
                    printed(browser, demo, out)
        if options.all is None:
            of_fleet(browser, out, {"light": ""})
            of_notebook(browser, out / "notebook.png")
        elif not only or "fleet" in only:
            of_fleet(browser, out, {look: f"-{look}" for look in LOOKS})


def every(only: set[str]) -> tuple[Picture, ...]:
    """Every page in every look, or these pages; the first also in sizes of its own."""
    sizes = tuple(Picture(f"board-{size}", "", size, whole=False) for size in OTHER_SIZES)
    return sizes * (not only) + tuple(
        Picture(f"{name}-{look}", page, look, whole=look != "4k" and name not in ACTS)
        for name, page in PAGES.items()
        for look in LOOKS
        if not only or name in only
    )


def find(page: Page, text: str) -> None:
    page.keyboard.press("/")
    page.keyboard.type(text)


def of_demo(browser: Browser, demo: Demo, out: Path, wanted: tuple[Picture, ...]) -> None:
    known = names_in(demo)
    wait_until_hot(demo)
    for one in wanted:
        name = one.name.removesuffix(f"-{one.look}")
        with window(browser, demo, one.look, tour=name == "tour") as page:
            page.goto(f"{demo.url}/#/{one.page.format(**known)}")
            if name in ACTS:
                ACTS[name](page)
            save(page, out / f"{one.name}.png", one.whole or name == "estimate")


def of_fleet(browser: Browser, out: Path, looks: Mapping[str, str]) -> None:
    """The fleet in these looks, each with the end of its file's name; for docs the list alone."""
    pages = {"fleet": "fleet", "fleet-map": "fleet?view=map&group=model"}
    with playing_fleet() as hub:
        for look, end in looks.items():
            with opened(browser, **LOOKS[look]) as seen:
                sign_in(seen.page, hub)
                for name, page in pages.items():
                    if end or name == "fleet":
                        seen.page.goto(f"{hub.url}/#/{page}")
                        save(seen.page, out / f"{name}{end}.png", whole=look != "4k")


def of_notebook(browser: Browser, path: Path) -> None:
    if not notebook_picture.BOOK.exists():
        print(f"{path}: as it was; make frameworks executes the notebook")
        return
    notebook_picture.of_docs(browser, path)
    reduce(path)


def printed(browser: Browser, demo: Demo, out: Path) -> None:
    """As a printer gets them, and a picture of the same."""
    known = names_in(demo)
    for name in PAPER:
        with window(browser, demo, "dark") as page:
            page.goto(f"{demo.url}/#/{PAGES[name].format(**known)}")
            page.wait_for_timeout(2500)
            page.pdf(path=out / f"{name}-printed.pdf", format="A4", landscape=name != "device")
            page.emulate_media(media="print")
            save(page, out / f"{name}-printed.png", whole=True)


def names_in(demo: Demo) -> dict[str, str]:
    """The names of a GPU, an alert, a process, a job and runs that show most."""
    jobs = demo.get("/api/jobs?state=running")["jobs"]
    runs = demo.get("/api/runs?group=lr-sweep&state=succeeded")["items"]
    hot = demo.get("/api/snapshot")["devices"][HOT]
    busy = hot["processes"][0]
    found = demo.get("/api/alerts")["alerts"]
    alerts = [one["id"] for one in found if one["subject"] == hot["uuid"]]
    return {
        "hot": hot["uuid"], "alert": alerts[0], "process": f"{busy['pid']}-{busy['started']}",
        "job": str(jobs[0]["number"]), "chosen": f"{jobs[0]['user']}/{jobs[0]['label']}",
        "run": runs[0]["id"], "runs": ",".join(one["id"] for one in runs[:4]),
    }  # fmt: skip


def wait_until_hot(demo: Demo) -> None:
    """The hot GPU pauses now and then, and cools down."""
    while demo.get("/api/board")["devices"][HOT]["lamp"] != "red":
        time.sleep(2)


@contextmanager
def window(browser: Browser, demo: Demo, look: str, tour: bool = False) -> Iterator[Page]:
    width, height = OTHER_SIZES.get(look, (0, 0))
    options = LOOKS.get(look) or {"viewport": {"width": width, "height": height}}
    with opened(browser, **options) as seen:
        if not tour:
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
