"""All pictures of the docs, made from the board and `andon top` as they are now.

python -m dev.pictures          writes docs/pictures/*.png and top.svg

With Pillow installed the pictures are reduced to 256 colours, which makes them a third as large.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

from dev import picture_of_top
from dev.screenshots import BOOK, WARM_SECONDS
from playwright.sync_api import Browser, Page, expect
from tests.integration.board import opened, sign_in, tiles, uuids
from tests.integration.browser import chromium
from tests.integration.conftest import andon
from tests.integration.leasing import entries, running
from tests.integration.run_writing import WrittenRun
from tests.integration.serving import Served, serving
from tests.support.waiting import wait_for

from andon.model.run.record import RunState

OUT = Path("docs/pictures")
DEVICES = 8
WIDTH, HEIGHT, TALLEST = 1280, 800, 1400
HOT = 3
TRAINING = r"""
import sys, time
began = time.time()
for step in range(3000):
    took = int(time.time() - began)
    sys.stderr.write(f"\rtrain: {step // 30}%|#    | {step}/3000 [{took // 60:02}:{took % 60:02}<0:00, 1it/s]")
    time.sleep(0.4)
"""  # noqa: E501 (as tqdm prints it)


@contextmanager
def crowd_of(folder: Path) -> Iterator[Served]:
    """A machine with leases of several kinds, a queue, jobs and runs."""
    state = folder / "crowd"
    os.environ |= {"XDG_STATE_HOME": str(state), "ANDON_SIMULATE_SCENARIO": "idle"}
    os.environ |= {BOOK: str(folder / "crowd-book")}
    for name in ("pretrain.py", "train.py"):
        (folder / name).write_text(TRAINING)
    os.chdir(folder)
    asked = ("--simulate", str(DEVICES))
    with ExitStack() as stack:
        served = stack.enter_context(serving(state, simulate=DEVICES))
        stack.callback(end_all)
        write_runs(state / "andon" / "runs")
        submit("prepare", command=("true",))
        submit("broken", command=("sh", "-c", "echo no data >&2; exit 3"))
        submit("pretrain", "--device", "6")
        wait_for(lambda: "3000" in andon("jobs").out, 120.0)
        work = ("--", "python3", "train.py", "--epochs", "40")
        for words in (
            ("lease", *asked, "-d", "0,1", "--for", "2h", *work),
            ("run", *asked, "--shared", "-m", "10GiB", "-d", "2", *work),
        ):
            stack.enter_context(running(*words))
        wait_for(lambda: len(entries()) == 3, 60.0)
        body = json.dumps({"seconds": 5400, "devices": ["3"], "command": "nightly evaluation"})
        said = {"Content_Type": "application/json", **served.bearer}
        assert served.ask("/api/leases", "POST", body, **said).status == 201
        andon("cordon", *asked, "7", "--reason", "new fan")
        submit("evaluate", "--after", "3")
        submit("finetune", "--gpus", "4")
        submit("nightly", "--begin", "22:30")
        yield served


@contextmanager
def shared_by(folder: Path) -> Iterator[Served]:
    """A machine that simulated people use, with one GPU that is ours."""
    book = str(folder / "shared-book")
    with serving(folder / "shared", simulate=DEVICES + 2, ANDON_LEASE_DIR=book) as served:
        body = json.dumps({"seconds": 7200, "devices": ["1"], "command": "python train.py"})
        said = {"Content_Type": "application/json", **served.bearer}
        assert served.ask("/api/leases", "POST", body, **said).status == 201
        yield served


def end_all() -> None:
    """The jobs and leases of the crowd."""
    andon("cancel", "3", "4", "5", "6")
    for entry in entries():
        if entry.lease is not None:
            andon("release", entry.lease.id)


def submit(name: str, *options: str, command: Sequence[str] = ("python3", "pretrain.py")) -> None:
    done = andon("submit", "--simulate", str(DEVICES), "--name", name, *options, "--", *command)
    assert done.code == 0, done.err


def write_runs(folder: Path) -> None:
    for number, (rate, seconds) in enumerate((("1e-4", 5400), ("3e-4", 5200), ("1e-3", 4700))):
        name = f"lr{rate}"
        run = WrittenRun(folder, "abc"[number] * 8, name, ago=30_000 - 8000 * number, group="sweep")
        run.sample(*range(0, seconds, 60))
        run.event(seconds / 2, "epoch", number=1)
        run.end(seconds)
    failed = WrittenRun(folder, "d" * 8, "finetune.py", 1, ago=4000)
    failed.sample(*range(0, 900, 30))
    failed.end(900, RunState.FAILED, message="exit code 1")


def save(page: Page, name: str, whole: bool = True) -> None:
    """The window, or as much of the page as fits into a picture."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(2500)
    height = HEIGHT
    if whole:
        last = "one => Math.ceil(one.lastElementChild.getBoundingClientRect().bottom)"
        foot = page.locator("main").evaluate(last)
        height = min(TALLEST, max(300, int(foot) + 45))
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(800)
    path = OUT / f"{name}.png"
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


@contextmanager
def window(browser: Browser, served: Served, count: int = DEVICES) -> Iterator[Page]:
    look = {"color_scheme": "light", "viewport": {"width": WIDTH, "height": HEIGHT}}
    with opened(browser, **look) as seen:
        sign_in(seen.page, served)
        expect(tiles(seen.page)).to_have_count(count)
        yield seen.page


def take(browser: Browser, mixed: Served, shared: Served, crowd: Served) -> None:
    with window(browser, mixed) as page:
        save(page, "board", whole=False)
        page.goto(f"{mixed.url}/#/device/{quote(uuids(page)[HOT])}")
        save(page, "device")
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        page.goto(f"{mixed.url}/#/alerts")
        hot = page.locator("li.alert", has_text=re.compile("is too hot"))
        expect(hot.get_by_role("button", name="Acknowledge")).to_be_visible(timeout=600_000)
        save(page, "alerts")
    for name in ("leases", "jobs", "runs"):
        with window(browser, crowd) as page:
            page.goto(f"{crowd.url}/#/{name}")
            save(page, name)
    with window(browser, shared, DEVICES + 2) as page:
        save(page, "shared", whole=False)
    with window(browser, mixed) as page:
        page.goto(f"{mixed.url}/#/estimate")
        page.get_by_label("model", exact=True).fill("llama-3-8b")
        page.get_by_role("button", name="Estimate", exact=True).click()
        save(page, "estimate")


def main() -> None:
    OUT.resolve().mkdir(exist_ok=True)
    here = Path.cwd()
    picture_of_top.main(OUT / "top.svg")
    with (
        tempfile.TemporaryDirectory(prefix="pictures.", ignore_cleanup_errors=True) as made,
        ExitStack() as stack,
    ):
        folder = Path(made)
        mixed = stack.enter_context(
            serving(folder / "mixed", simulate=DEVICES, ANDON_LEASE_DIR=str(folder / "empty"))
        )
        shared = stack.enter_context(shared_by(folder))
        crowd = stack.enter_context(crowd_of(folder))
        os.chdir(here)
        browser = stack.enter_context(chromium())
        waiting = browser.new_page()
        print(f"waiting {WARM_SECONDS} s for some history", file=sys.stderr)
        waiting.wait_for_timeout(WARM_SECONDS * 1000)
        waiting.close()
        take(browser, mixed, shared, crowd)


if __name__ == "__main__":
    main()
