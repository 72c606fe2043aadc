"""Screenshots of every page of the board: light, dark, large and on a phone; 0 to 64 devices.

make screenshots          writes them to .screenshots
"""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from dev.picture_of_fleet import playing_fleet
from playwright.sync_api import Browser, Page, expect
from tests.integration.board import opened, serving_node, sign_in, tiles, uuids
from tests.integration.browser import chromium
from tests.integration.conftest import andon
from tests.integration.leasing import FOREVER, kill, line, running, work_pid
from tests.integration.serving import Served, serving

LOOKS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1440, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "1280": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "4k": {"color_scheme": "dark", "viewport": {"width": 3840, "height": 2160}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
    "phone-dark": {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}},
}
NODES = {"0": 0, "1": 1, "4": 4, "8": 8, "64": 64, "lost": 8, "healthy": 8, "leases": 8}
ENVIRONMENTS = {
    "lost": {"ANDON_SIMULATE_FAULTS": "lost:2@0,hung:5@0,ecc:6@0=1"},
    "healthy": {"ANDON_SIMULATE_SCENARIO": "training"},
    "leases": {"ANDON_SIMULATE_SCENARIO": "idle"},
}
BOOK = "ANDON_LEASE_DIR"
PAGES = ("charts", "processes", "alerts", "runs", "jobs", "estimate", "health")
OF_A_HUB = {
    "fleet": "fleet", "map": "fleet?view=map", "alerts": "alerts", "ended": "alerts?show=ended",
    "processes": "processes", "leases": "leases", "waiting": "leases?show=waiting", "jobs": "jobs",
    "runs": "runs", "charts": "charts", "estimate": "estimate", "user": "user/alice",
    "wall": "wall",
}  # fmt: skip
WARM_SECONDS = 75  # until there is something to show


@contextmanager
def nodes(folder: Path) -> Iterator[dict[str, Served]]:
    """A server for each kind of node."""
    with ExitStack() as stack:
        found = {}
        for name, devices in NODES.items():
            state = folder / name
            book = str(folder / ("book" if name == "leases" else "empty"))
            env = {BOOK: book, **ENVIRONMENTS.get(name, {})}
            made = serving(state, simulate=devices, **env) if devices else serving_node(state)
            found[name] = stack.enter_context(made)
        yield found


@contextmanager
def leases(folder: Path, served: Served) -> Iterator[None]:
    """A book with whole and shared leases, one over the network, an orphan and a queue."""
    os.environ[BOOK] = str(folder / "book")
    os.environ.update(ENVIRONMENTS["leases"])
    simulated = ("--simulate", str(NODES["leases"]))
    train, finetune = folder / "train.py", folder / "finetune.py"
    train.write_text(FOREVER)
    finetune.write_text(f"import subprocess as s; s.Popen(['python3', '{train}']).wait()")
    work = ("--", "python3", str(train), "--epochs", "40")
    asked = json.dumps({"seconds": 5400, "devices": ["3"], "command": "nightly evaluation"})
    with ExitStack() as stack:

        def hold(*command: str) -> int:
            process = stack.enter_context(running(*command))
            line(process)
            return process.pid

        holder = hold("run", *simulated, "-d", "5", "--", "python3", str(finetune))
        worker = work_pid()
        kill(holder)
        kill(worker)  # and its child keeps running
        hold("lease", *simulated, "--gpus", "2", "-d", "0,1", "--for", "2h", *work)
        hold("run", *simulated, "--shared", "-m", "10GiB", "-d", "2", *work)
        said = {"Content_Type": "application/json", **served.bearer}
        assert served.ask("/api/leases", "POST", asked, **said).status == 201
        andon("cordon", *simulated, "7", "--reason", "new fan")
        stack.enter_context(running("run", *simulated, "--gpus", "4", "-m", "8GiB", *work))
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(worker, 9)


def board(page: Page, served: Served, devices: int) -> None:
    page.goto(served.url)
    expect(tiles(page)).to_have_count(devices)
    expect(page.locator("footer .link")).to_have_text("live")


def take(browser: Browser, found: dict[str, Served], out: Path) -> None:
    for look, options in LOOKS.items():
        for name, served in found.items():
            with opened(browser, **options) as seen:
                board(seen.page, served, NODES[name])
                seen.page.wait_for_timeout(1500)
                seen.page.screenshot(path=out / f"board-{name}-{look}.png")
        with opened(browser, **options) as seen:
            served = found["lost"]
            sign_in(seen.page, served)
            expect(tiles(seen.page)).to_have_count(8)
            every = uuids(seen.page)
            for name, device in (("device", every[3]), ("device-lost", every[2])):
                seen.page.goto(f"{served.url}/#/device/{quote(device)}")
                seen.page.wait_for_timeout(2500)
                seen.page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
            for name in PAGES:
                seen.page.goto(f"{served.url}/#/{name}")
                seen.page.wait_for_timeout(1500)
                seen.page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
        for name in ("leases", "8"):
            with opened(browser, **options) as seen:
                sign_in(seen.page, found[name])
                seen.page.goto(f"{found[name].url}/#/leases")
                seen.page.wait_for_timeout(1500)
                kind = "leases" if name == "leases" else "leases-none"
                seen.page.screenshot(path=out / f"{kind}-{look}.png", full_page=True)
    with opened(browser, **LOOKS["light"]) as seen:
        board(seen.page, found["8"], 8)
        tiles(seen.page).nth(1).locator("a").hover()
        seen.page.wait_for_timeout(500)
        seen.page.screenshot(path=out / "card-light.png")
        seen.page.keyboard.press("?")
        seen.page.wait_for_timeout(500)
        seen.page.screenshot(path=out / "help-light.png")


def take_hub(browser: Browser, out: Path) -> None:
    with playing_fleet() as hub:
        for look, options in LOOKS.items():
            with opened(browser, **options) as seen:
                sign_in(seen.page, hub)
                for name, page in OF_A_HUB.items():
                    seen.page.goto(f"{hub.url}/#/{page}")
                    seen.page.wait_for_timeout(1500)
                    seen.page.screenshot(path=out / f"hub-{name}-{look}.png", full_page=True)


def main(out: Path) -> None:
    out.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        nodes(Path(folder)) as found,
        leases(Path(folder), found["leases"]),
        chromium() as browser,
    ):
        page = browser.new_page()
        print(f"waiting {WARM_SECONDS} s for some history", file=sys.stderr)
        page.wait_for_timeout(WARM_SECONDS * 1000)
        page.close()
        take(browser, found, out)
        take_hub(browser, out)
    print(f"{len(list(out.glob('*.png')))} screenshots in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".screenshots"))
