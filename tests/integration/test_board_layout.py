"""How the board is laid out: a headline that moves nothing, whole words, and a phone."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.board import opened, sideways, tiles, uuids
from tests.integration.browser import chromium
from tests.integration.serving import Served, serving

pytestmark = pytest.mark.timeout(150)

DEVICES = 64
SIZES = {1280: 800, 390: 844}
LONG = "GPU 3 is lost: it has fallen off the bus 26 min ago. On it: root, caroline, dora. " * 4
CUT = """all => all.flatMap(tile => [...tile.querySelectorAll(".face *")]
  .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
  .filter(one => getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth)
  .map(one => one.textContent))"""

PLACES = """texts => texts.map(text => {
  document.querySelector(".headline h1").textContent = text;
  const [headline, tile] = [".headline", "li.tile"].map(one => document.querySelector(one));
  return [headline.getBoundingClientRect().height, tile.getBoundingClientRect().y];
})"""
"""The height of the headline and the place of the first tile: in one step, without a live value
that changes in between."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Most of its GPUs are busy; one is lost, so that a tile is red and the headline is long."""
    state = tmp_path_factory.mktemp("layout")
    with serving(
        state, "--no-history", simulate=DEVICES,
        ANDON_SIMULATE_FAULTS="lost:3@0", ANDON_ALERTS_NODE_CPU_PERCENT="off",
    ) as served:  # fmt: skip
        yield served


@pytest.mark.parametrize("width", SIZES)
def test_no_word_is_cut_on_64_tiles_and_the_headline_has_one_height_whatever_it_says(
    browser: Browser, home: Served, width: int
) -> None:
    with opened(browser, viewport={"width": width, "height": SIZES[width]}) as seen:
        page = seen.page
        page.goto(home.url)
        expect(tiles(page)).to_have_count(DEVICES)
        expect(page.locator("li.tile.red")).to_have_count(1, timeout=90_000)
        assert tiles(page).evaluate_all(CUT) == []
        plain, long = page.evaluate(PLACES, ["All 64 GPUs are fine", LONG])
        assert plain == long


def test_on_a_phone_what_matters_comes_first(browser: Browser, home: Served) -> None:
    with opened(browser, viewport={"width": 390, "height": 844}) as seen:
        page = seen.page
        page.goto(home.url)
        expect(page.locator("li.tile.red")).to_contain_text("lost", timeout=90_000)
        page.goto(f"{home.url}/#/device/{quote(uuids(page)[0])}")
        why, chart = page.get_by_role("heading", name="Why"), page.locator("figure.chart").first
        expect(chart).to_be_visible()
        places = [one.bounding_box() for one in (why, chart)]
        assert places[0] is not None
        assert places[1] is not None
        assert places[0]["y"] < places[1]["y"]
        page.get_by_role("link", name="Health").click()
        expect(page).to_have_url(f"{home.url}/#/health")
        assert sideways(page) <= 0
        page.goto(f"{home.url}/#/alerts")
        page.get_by_text("Alert rules and what to do about each").click()
        rule = page.locator("details.rule").filter(has_text="thermal · threshold").first
        rule.locator("summary").click()
        expect(rule).to_contain_text("Check the cooling")
