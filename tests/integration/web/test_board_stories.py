"""The board says of every story what REST says: headline, tile, filter, badge, since and who."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.integration.board import opened, tiles
from tests.integration.browser import Window
from tests.support.alert_stories import Story, stories
from tests.support.web_parts import BEARER, Caller, Parts

ORIGIN = "http://localhost"
USUAL = ("fine", "lost", "pending", "silenced beside hung", "held but idle")
"""For every change, one of each kind; what all stories say on other surfaces is a unit test."""
LASTED = {"hung": "8 min", "lost": "20 s", "held but idle": "20 min"}
"""What the tile of a story says about its time."""


@pytest.fixture(scope="module")
def window(browser: Browser) -> Iterator[Window]:
    with opened(browser, viewport={"width": 1280, "height": 800}) as found:
        yield found


class Stage:
    """One application and one window for all stories: each is told after the other."""

    def __init__(self, folder: Path, page: Page) -> None:
        self.story, self.page = stories()[0], page
        self._parts = Parts(folder, [self.story.snapshot])
        self._caller = Caller(self._parts.app, "127.0.0.1", "localhost")
        self._files: dict[str, httpx.Response] = {}
        self._parts.watcher.alerts = lambda: self.story.alerts  # type: ignore[method-assign]
        self._parts.live.newest = lambda: self.story.snapshot  # type: ignore[method-assign]
        page.route(f"{ORIGIN}/**", self._answer)

    def tell(self, story: Story) -> None:
        self.story = story
        self.page.goto(f"{ORIGIN}/#/")
        self.page.reload()

    def asked(self, path: str) -> httpx.Response:
        """In a thread of its own: Playwright has an event loop in this one."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self._caller.get, path, headers=BEARER).result()

    def close(self) -> None:
        self._parts.close()

    def _answer(self, route: Route) -> None:
        """Every request goes to the application; there is no network, and nothing is live."""
        parts = urlsplit(route.request.url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if path.startswith("/socket.io"):
            route.abort()
            return
        found = self._files.get(path) or self.asked(path)
        if not path.startswith("/api/"):
            self._files[path] = found
        kept = {name: value for name, value in found.headers.items() if name != "content-encoding"}
        route.fulfill(status=found.status_code, headers=kept, body=found.content)


@pytest.fixture(scope="module")
def stage(window: Window, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    found = Stage(tmp_path_factory.mktemp("stage"), window.page)
    yield found
    found.close()


@pytest.mark.parametrize(
    "name",
    [pytest.param(one.name, marks=() if one.name in USUAL else pytest.mark.long)
     for one in stories()],
)  # fmt: skip
def test_the_board_says_what_rest_says(name: str, stage: Stage) -> None:
    (story,) = (story for story in stories() if story.name == name)  # its times are from now on
    stage.tell(story)
    page, said = stage.page, stage.asked("/api/board").json()
    alerts = stage.asked("/api/alerts").json()
    assert (said["headline"], said["lamp"]) == (story.headline, story.lamp)
    expect(page.locator("header.headline h1")).to_have_text(story.headline)
    assert_board(page, story, said, alerts)
    page.keyboard.press("a")
    assert_listed(page, alerts)


def assert_board(page: Page, story: Story, said: Any, alerts: Any) -> None:
    head = page.locator("header.headline")
    expect(head.locator(f"svg.lamp.{said['lamp']}")).to_have_count(1)
    expect(page).to_have_title(f"{story.headline} · node17 · andon")
    expect(tiles(page)).to_have_count(len(said["devices"]))
    for place, device in enumerate(said["devices"]):
        tile = tiles(page).nth(place)
        expect(tile.locator(f"svg.lamp.{device['lamp']}")).to_have_count(1)
        if device["lamp"] == "green":
            continue
        expect(tile.locator(".word")).to_have_text(device["status"])
        text = tile.inner_text().replace("\xa0", " ")
        for user in (device["lit_by"] or {"users": []})["users"]:
            assert user in text or "last seen" in text, (user, text)
        assert ("handled" in (tile.get_attribute("class") or "")) == device["handled"]
        assert LASTED.get(story.name, "") in text
    calling = [d for d in said["devices"] if d["lamp"] in ("red", "amber") and not d["handled"]]
    assert len(calling) == story.troubled
    expect(page.get_by_role("button", name=f"troubled {story.troubled}")).to_be_visible()
    counts = alerts["counts"]
    assert counts["critical"] + counts["warning"] == story.badge
    badge = page.locator("nav .badge")
    expect(badge).to_have_text([str(story.badge)] if story.badge else [])


def assert_listed(page: Page, alerts: Any) -> None:
    """In the server's order: what nobody handles first."""
    calling = [e for e in alerts["entries"] if e["lamp"] in ("red", "amber")]
    rows = page.locator("li.alert.firing")
    expect(page.get_by_role("heading", name="Alerts", exact=True)).to_be_visible()
    found = rows.evaluate_all("all => all.map(one => one.dataset.alert)")
    listed = [e["id"] for e in alerts["entries"] if e["id"] in found]
    assert found == listed
    assert {e["id"] for e in calling} <= set(found)
