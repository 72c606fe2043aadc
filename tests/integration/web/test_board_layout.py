"""How the board is laid out: a headline that moves nothing, whole words, and a phone."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import ViewportSize, expect

from tests.integration.board import drawn, sideways, tiles, uuids
from tests.integration.browser import Window
from tests.integration.serving import Served, serving

pytestmark = pytest.mark.timeout(150)

DEVICES = 64
SIZES = {1280: 800, 390: 844}
PHONE = ViewportSize(width=390, height=844)
LONG = "GPU 3 is lost: it has fallen off the bus 26 min ago. On it: root, caroline, dora. " * 4
CUT = """all => all.flatMap(tile => [...tile.querySelectorAll(".face *")]
  .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
  .filter(one => getComputedStyle(one).overflowX !== "visible" && one.scrollWidth > one.clientWidth)
  .map(one => one.textContent))"""

OVERLAPPING = """all => all.filter(row => {
  const [name, text] = [row.querySelector("dt").firstChild, row.querySelector("dd")];
  const range = document.createRange();
  range.selectNodeContents(name.parentNode);
  return range.getBoundingClientRect().right > text.getBoundingClientRect().left;
}).map(row => row.textContent)"""
PAGES = ("charts", "processes", "alerts", "leases", "runs", "jobs", "estimate", "health")

PLACES = """texts => texts.map(text => {
  document.querySelector(".headline h1").textContent = text;
  const [headline, tile] = [".headline", "li.tile"].map(one => document.querySelector(one));
  return [headline.getBoundingClientRect().height, tile.getBoundingClientRect().y];
})"""
"""The height of the headline and the place of the first tile: in one step, without a live value
that changes in between."""


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
    reader: Window, home: Served, width: int
) -> None:
    page = reader.page
    page.set_viewport_size({"width": width, "height": SIZES[width]})
    page.goto(f"{home.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    expect(page.locator("li.tile.red")).to_have_count(1, timeout=90_000)
    drawn(page)
    assert tiles(page).evaluate_all(CUT) == []
    plain, long = page.evaluate(PLACES, ["All 64 GPUs are fine", LONG])
    assert plain == long


def test_nothing_sticks_out_between_a_phone_and_a_wide_screen(reader: Window, home: Served) -> None:
    page = reader.page
    wide = {}
    for name in PAGES:
        page.goto(f"{home.url}/#/{name}")
        expect(page.locator("main").get_by_role("heading", level=1)).to_be_visible()
        for width in (768, 1024, 1090):
            page.set_viewport_size({"width": width, "height": 800})
            drawn(page)
            if found := max(0, sideways(page)):
                wide[name, width] = found
    assert wide == {}


def test_on_a_phone_the_first_line_has_the_search_too(reader: Window, home: Served) -> None:
    page = reader.page
    page.set_viewport_size(PHONE)
    page.goto(f"{home.url}/#/")
    expect(page.get_by_text("SIMULATED", exact=True)).to_be_visible()
    mark = page.get_by_role("link", name="andon board").bounding_box()
    search = page.get_by_role("button", name="find anything").bounding_box()
    assert mark is not None
    assert search is not None
    assert search["y"] < mark["y"] + mark["height"]


def test_what_a_card_and_the_help_say_stays_in_its_place(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    tiles(page).nth(4).locator("a").hover()  # the widest values: 62.2 / 79.6 GiB
    card = page.locator(".card")
    expect(card).to_contain_text("GPU 4")
    assert card.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    page.keyboard.press("?")
    rows = page.get_by_role("dialog").locator(".keys div")
    assert rows.evaluate_all(OVERLAPPING) == []
    page.keyboard.press("Escape")


def test_on_paper_there_is_the_page_alone(reader: Window, home: Served) -> None:
    page = reader.page
    page.emulate_media(color_scheme="dark")
    page.goto(f"{home.url}/#/processes")
    row = page.get_by_role("region", name="processes").get_by_text("Xorg").first
    expect(row).to_be_visible()
    page.emulate_media(media="print")
    expect(page.get_by_role("button", name="find anything")).to_be_hidden()
    expect(page.locator('[aria-label="group by"]')).to_be_hidden()
    expect(page.locator("footer")).to_be_hidden()
    expect(row).to_be_visible()
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == "rgb(255, 255, 255)"  # ink on white paper
    page.emulate_media(media="screen", color_scheme="light")


def test_on_a_phone_what_matters_comes_first(reader: Window, home: Served) -> None:
    page = reader.page
    page.set_viewport_size(PHONE)
    page.goto(f"{home.url}/#/")
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
