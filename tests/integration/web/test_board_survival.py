"""The board never goes white: a server that dies under it, one that comes back, an upgrade."""

import re
import signal
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.board import holds, sign_in, tiles, uuids
from tests.integration.browser import Window
from tests.integration.parts import free_port
from tests.integration.serving import serving

DEVICES = 3
LATER = "() => performance.getEntriesByType('resource').some(one => /later-.*js/.test(one.name))"
"""Whether the script of the other pages has been loaded, which comes right after the first one."""
LEFT_ALONE = "copy|light theme|dark theme|Release|Extend"
"""What changes nothing on a page, or asks the server to end somebody's work."""
CLICK_EVERYTHING = """async leftAlone => {
  let clicked = 0;
  for (const one of [...document.querySelectorAll("main button, main summary, main select")]) {
    if (!one.isConnected || !one.checkVisibility() || one.disabled) continue;
    if (new RegExp(leftAlone).test(one.getAttribute("aria-label") || one.innerText)) continue;
    if (one.tagName === "SELECT") {
      one.selectedIndex = 1;
      one.dispatchEvent(new Event("change", {bubbles: true}));
    } else {
      one.click();
    }
    clicked++;
    await new Promise(requestAnimationFrame); // it is drawn before the next one
  }
  return clicked;
}"""


def pages(page: Page) -> list[str]:
    """Every page there is: those of the bar, each device, and one that does not exist."""
    links = page.locator("header nav a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
    return [
        *links,
        "#/health",
        *(f"#/device/{quote(uuid)}" for uuid in uuids(page)),
        "#/fleet",
        "#/nowhere",
    ]


def click_everything(page: Page) -> int:
    """Every button and every fold of a page, as long as it is there; how many were clicked."""
    clicked: int = page.evaluate(CLICK_EVERYTHING, LEFT_ALONE)
    return clicked


def is_drawn(page: Page) -> None:
    expect(page.locator("header nav")).to_be_visible()
    expect(page.get_by_role("main")).not_to_be_empty()
    expect(page.get_by_text("This page cannot be shown")).to_have_count(0)


def faults(seen: Window) -> list[str]:
    """What the page itself did wrong; a request to a server that is away fails loudly."""
    away = re.compile("ERR_CONNECTION|Failed to load resource|WebSocket|net::")
    return [one for one in seen.complaints if not away.search(one)]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_everything_is_clicked_while_the_server_is_dead_and_recovers(
    seen: Window, tmp_path: Path
) -> None:
    page, port = seen.page, free_port()
    with serving(tmp_path, simulate=DEVICES, port=port) as first:
        sign_in(page, first)
        expect(tiles(page)).to_have_count(DEVICES)
        expect(page.locator("footer .link")).to_have_text("live")
        expect(page.locator("header nav a")).to_have_count(8)
        holds(page, LATER)
        every = pages(page)
        page.evaluate("window.thisVeryPage = true")
        first.process.send_signal(signal.SIGKILL)
        expect(page.get_by_role("status")).to_contain_text("Reconnecting")
        clicked = 0
        for place in every:
            page.evaluate(f"location.hash = {place!r}")
            is_drawn(page)
            clicked += click_everything(page)
            is_drawn(page)
        assert clicked > 40, "ranges, folds, groups and sorting were there"
        assert faults(seen) == []
    with serving(tmp_path, simulate=DEVICES, port=port):
        expect(page.locator("footer .link")).to_have_text("live")
        for place in every:
            page.evaluate(f"location.hash = {place!r}")
            is_drawn(page)
        page.evaluate("location.hash = '#/'")
        expect(page.locator("li.tile.green").first).to_be_visible()
        page.evaluate(f"location.hash = {every[-4]!r}")
        expect(page.get_by_role("figure", name=re.compile(r"^Utilisation.*mean"))).to_be_visible()
        assert page.evaluate("window.thisVeryPage") is True, "without a reload"
        assert faults(seen) == []


class Upgrade:
    """The same server with a board of another name, as an upgraded package has it."""

    def __init__(self, page: Page) -> None:
        self.loads = 0
        self._page = page
        self._old = self._new = ""

    def install(self, url: str) -> None:
        answer = self._page.request.get(f"{url}/").text()
        found = re.search(r"assets/(index-[\w-]+\.js)", answer)
        assert found
        self._old, self._new = found[1], "index-upgraded0.js"
        script = self._page.request.get(f"{url}/static/assets/{self._old}").text()
        self._page.route(f"{url}/", lambda route: self._index(route, answer))
        self._page.route(
            f"{url}/static/assets/{self._old}", lambda route: route.fulfill(status=404)
        )
        self._page.route(
            f"{url}/static/assets/{self._new}",
            lambda route: route.fulfill(body=script, content_type="text/javascript"),
        )
        self._page.route(f"{url}/static/assets/later-*.js", self._later)

    def _later(self, route: Route) -> None:
        script = route.fetch().text().replace(self._old, self._new)  # it imports the first one
        route.fulfill(body=script, content_type="text/javascript")

    def _index(self, route: Route, answer: str) -> None:
        self.loads += route.request.is_navigation_request()
        route.fulfill(body=answer.replace(self._old, self._new), content_type="text/html")


@pytest.mark.timeout(300)
def test_after_an_upgrade_the_new_board_is_loaded_once(seen: Window, tmp_path: Path) -> None:
    page, port = seen.page, free_port()
    upgrade = Upgrade(page)
    with serving(tmp_path, "--no-history", simulate=DEVICES, port=port) as first:
        page.goto(first.url)
        expect(tiles(page)).to_have_count(DEVICES)
        device = quote(uuids(page)[0])
        upgrade.install(first.url)
        first.process.send_signal(signal.SIGKILL)
        expect(page.get_by_role("status")).to_contain_text("Reconnecting")
        page.evaluate(f"location.hash = '#/device/{device}'")
        expect(page.get_by_role("heading", level=1)).to_contain_text("GPU 0")
        page.evaluate("document.body.dataset.old = 'yes'")
    with serving(tmp_path, "--no-history", simulate=DEVICES, port=port):
        expect(page.locator("body[data-old]")).to_have_count(0)
        expect(page.locator("footer .link")).to_have_text("live")
        expect(page.get_by_role("heading", level=1)).to_contain_text("GPU 0")
        for place in ("#/", "#/charts", "#/leases", "#/processes"):
            page.evaluate(f"location.hash = {place!r}")
            is_drawn(page)
    with serving(tmp_path, "--no-history", simulate=DEVICES, port=port):
        expect(page.locator("footer .link")).to_have_text("live")
        is_drawn(page)
        assert upgrade.loads == 1
        assert faults(seen) == []


def test_a_page_that_fails_says_so_and_the_others_still_work(seen: Window, tmp_path: Path) -> None:
    page = seen.page

    def broken(route: Route) -> None:
        route.fulfill(body='{"leases": 5}', content_type="application/json")

    with serving(tmp_path, "--no-history", simulate=1) as served:
        page.route("**/api/leases", broken)
        page.goto(f"{served.url}/#/leases")
        expect(page.get_by_text("This page cannot be shown")).to_be_visible()
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        page.locator("footer").get_by_text("Health").click()
        expect(page.get_by_role("heading", name="Sampling")).to_be_visible()
        page.locator("header nav").get_by_text("Leases").click()
        expect(page.get_by_text("This page cannot be shown")).to_be_visible()
        page.unroute("**/api/leases", broken)
        page.get_by_role("button", name="Reload").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Leases")
