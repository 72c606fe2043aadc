"""The board in a real browser: windows of any size and theme, servers of any node, and axe."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from tests.conftest import REPOSITORY
from tests.integration.browser import PATIENCE_MS, Window
from tests.integration.conftest import andon
from tests.integration.serving import READY_SECONDS, Served
from tests.support.waiting import wait_for

AXE = REPOSITORY / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
COLOUR_RULES = ("color-contrast", "link-in-text-block")
RUN_AXE = """async (part, options) =>
  (await axe.run(part, {resultTypes: ["violations"], ...options})).violations"""
GROUND = "getComputedStyle(document.documentElement).backgroundColor"
USUAL_SIZE = ViewportSize(width=1280, height=800)
expect.set_options(timeout=PATIENCE_MS)


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Window]:
    """A window in a profile of its own."""
    usual = {"viewport": USUAL_SIZE, "reduced_motion": "reduce"}
    context = browser.new_context(**{**usual, **options})
    context.set_default_timeout(PATIENCE_MS)
    found = Window(context.new_page())
    found.watch()
    try:
        yield found
    finally:
        context.close()


@contextmanager
def serving_node(state: Path, *options: str, port: int = 0, **env: str) -> Iterator[Served]:
    """`andon serve` of the node itself: what the environment says, or no device at all."""
    command = [sys.executable, "-m", "andon.cli", "serve", "--port", str(port), "--quiet"]
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(state), **env},
    )
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        found = re.search(r"(https?://\S+):(\d+)", told)
        assert found, told
        yield Served(f"{found[1]}:{found[2]}", int(found[2]), state, process, told)
    finally:
        process.terminate()
        try:
            process.communicate(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def link(served: Served) -> str:
    """What `andon open` opens."""
    token = served.state / "andon" / "token"
    done = andon("open", "--url", served.url, "--print", "--token-file", str(token))
    assert done.code == 0, done.err
    return done.out.strip()


def code(served: Served) -> str:
    """What is in such a link: the same request without a command."""
    found: str = served.ask("/api/links", "POST", **served.bearer).json()["code"]
    return found


def sign_in(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/#code={code(served)}")
    expect(page.get_by_text("signed in")).to_be_visible()


def show_only(page: Page, text: str) -> None:
    """Finds a text, and shows only what has it on this page."""
    page.keyboard.press("/")
    page.get_by_role("combobox", name="find anything").fill(text)
    page.get_by_role("option").last.click()


def holds(page: Page, function: str, argument: object = None) -> None:
    """Until the page answers yes. Playwright's own way evaluates text in the page, which the
    board's policy forbids."""
    wait_for(lambda: page.evaluate(function, argument))


def violations(where: Page | Locator, *only: str) -> list[str]:
    """What axe finds wrong with the page as it is (or with a part of it, which takes less), or by
    the rules named; one line each. While something fades in, its colours are not yet those that
    stay: what is found counts if it is found again."""
    page = where.page if isinstance(where, Locator) else where
    whole = page.locator(":root") if where is page else where
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = []
    for _ in range(3):
        found = whole.evaluate(RUN_AXE, {"runOnly": list(only)} if only else {})
        if not found:
            break
        holds(page, "() => document.getAnimations().every(one => one.playState !== 'running')")
    return [
        f"{rule['id']}: {rule['help']}: {[node['html'][:160] for node in rule['nodes'][:3]]}"
        for rule in found
    ]


def violations_in_both_themes(where: Page | Locator) -> list[str]:
    """The same for a page in the light theme, and what its colours do in the dark one."""
    page = where.page if isinstance(where, Locator) else where
    light, found = page.evaluate(GROUND), violations(where)
    page.emulate_media(color_scheme="dark")
    holds(page, f"light => {GROUND} !== light", light)
    found += [f"dark: {one}" for one in violations(where, *COLOUR_RULES)]
    page.emulate_media(color_scheme="light")
    holds(page, f"light => {GROUND} === light", light)
    return found


def drawn(page: Page) -> None:
    """Until the page shows what it was last asked for: two frames are laid out."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


SETTLED = """async ([far, most]) => {
  const window_ = far === "scrollWidth" ? "innerWidth" : "innerHeight";
  const left = () => document.documentElement[far] - window[window_];
  const end = performance.now() + most;
  while (left() > 0 && performance.now() < end) await new Promise(requestAnimationFrame);
  return left();
}"""


def sideways(page: Page) -> int:
    """By how many pixels the page is wider than its window once it has settled."""
    found: int = page.evaluate(SETTLED, ["scrollWidth", 10_000])
    return found


def downwards(page: Page) -> int:
    """By how many pixels it is higher."""
    found: int = page.evaluate(SETTLED, ["scrollHeight", 10_000])
    return found


def tiles(page: Page) -> Any:
    return page.locator("li.tile")


def uuids(page: Page) -> list[str]:
    found: list[str] = page.locator("a[data-uuid]").evaluate_all(
        "all => all.map(one => one.dataset.uuid)"
    )
    return found


def chart_heights(page: Page) -> list[float]:
    """Of the tiles, in pixels: those of a few GPUs must be high enough to read."""
    found: list[float] = page.locator(".tile .sparkline").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height)"
    )
    return found
