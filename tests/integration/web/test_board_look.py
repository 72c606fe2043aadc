"""What is seen first, and from afar: the page before its script, palette, wall and icon."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from andon.leases.book.lease_book import Book
from tests.integration.board import GROUND, serving_node, tiles, violations
from tests.integration.browser import Window
from tests.integration.parts import free_port
from tests.integration.serving import Served, serving
from tests.support.web_parts import end_holders

DEVICES = 4
LARGE = {"width": 3840, "height": 2160}
SIZE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
MENU = "all => all.map(one => [one.textContent, one.getBoundingClientRect().x])"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The first GPU is free."""
    book = str(tmp_path_factory.mktemp("x") / "book")
    with serving(
        tmp_path_factory.mktemp("home"), simulate=DEVICES,
        ANDON_LEASE_DIR=book, ANDON_SIMULATE_SCENARIO="idle", ANDON_ALERTS_NODE_CPU_PERCENT="off",
    ) as served:  # fmt: skip
        yield served
    end_holders(Book({"ANDON_LEASE_DIR": book}))


def test_the_page_is_there_before_its_script_and_its_menu_never_moves(
    seen: Window, home: Served
) -> None:
    page = seen.page
    held: list[Route] = []
    page.route(re.compile(r"/assets/index-.*\.js"), lambda route: held.append(route))
    page.goto(home.url, wait_until="commit")
    menu = page.locator("header nav a")
    expect(menu).to_have_count(8)
    expect(page.get_by_role("heading", level=1)).to_have_text("Loading…")
    expect(page.locator(".blanks i").first).to_be_visible()
    page.evaluate("document.fonts.ready")
    first = menu.evaluate_all(MENU)
    held[0].continue_()
    expect(tiles(page)).to_have_count(DEVICES)
    expect(page.locator(".blanks")).to_have_count(0)
    assert menu.evaluate_all(MENU) == first


def test_the_typeface_is_its_own_and_grows_with_the_screen(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    assert page.evaluate("document.fonts.check('16px Inter') && document.fonts.size === 1")
    assert page.evaluate("[...document.fonts][0].status") == "loaded"
    assert page.evaluate(SIZE) == 16
    page.set_viewport_size({"width": LARGE["width"], "height": LARGE["height"]})
    assert page.evaluate(SIZE) > 25
    box = tiles(page).last.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] > 0.85 * LARGE["height"], "nothing is left empty"


def recorded(route: Route) -> None:
    """Three hours of a history, as the server sends them."""
    said = route.fetch().json()
    end = said["at"][-1]
    said["at"] = [end - 120 * ago for ago in range(89, -1, -1)]
    said["devices"] = {uuid: [50.0] * 90 for uuid in said["devices"]}
    route.fulfill(json=said)


def test_the_last_hours_are_drawn_at_once(reader: Window, home: Served) -> None:
    page = reader.page
    page.route("**/api/recent?seconds=10800", recorded)
    page.goto(f"{home.url}/#/")
    page.reload()
    expect(page.get_by_text("lines: last 3 h")).to_be_visible()
    line = tiles(page).first.locator(".sparkline .line")
    expect(line).to_have_attribute("d", re.compile(r"^M(0|1)\.\d 12\.0L"))
    assert reader.complaints == []


def palette(page: Page, typed: str) -> None:
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="find anything")).to_be_focused()
    page.keyboard.type(typed)


def test_the_palette_finds_and_does_by_keys(reader: Window, owner: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    palette(page, "gpu 2")
    chosen = page.locator('[role="option"][aria-selected="true"]')
    expect(chosen).to_contain_text("GPU 2")
    field = page.get_by_role("combobox", name="find anything")
    expect(field).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "none")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    assert violations(page.get_by_role("dialog")) == []
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("GPU 2")
    palette(page, "charts")
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    expect(page).to_have_url(re.compile("device/"))
    palette(page, "lease 1")  # who has not signed in gets the command
    expect(chosen).to_contain_text("Copy andon lease --devices 1 --for 2h")
    page.keyboard.press("Escape")
    page = owner.page
    palette(page, "lease 1 for 4 h")
    expect(page.locator('[role="option"][aria-selected="true"]')).to_contain_text(
        "Lease GPU 1 for 4 h"
    )
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#/leases/."))
    expect(page.locator(".lease")).to_contain_text(re.compile(r"3\sh 59\smin left|4\sh left"))
    assert reader.complaints + owner.complaints == []


def test_a_link_shares_what_is_searched(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    palette(page, "no such gpu")
    page.get_by_role("option").last.click()
    expect(page).to_have_url(re.compile(r"#/\?q=no\+such\+gpu$"))
    expect(page.locator("li.tile.faded")).to_have_count(DEVICES)
    page.reload()
    expect(page.get_by_role("button", name="find anything")).to_contain_text("no such gpu")
    expect(page.locator("li.tile.faded")).to_have_count(DEVICES)


def test_the_wall_is_dark_and_survives_its_server(seen: Window, tmp_path: Path) -> None:
    page, port = seen.page, free_port()
    with serving(
        tmp_path, "--no-history", simulate=2, port=port, ANDON_SIMULATE_FAULTS="lost:1@0"
    ) as first:
        page.goto(first.url)
        light = page.evaluate(GROUND)
        expect(tiles(page)).to_have_count(2)
        page.keyboard.press("w")
        expect(page.locator(".wall .clock")).to_have_text(re.compile(r"^\d\d:\d\d "))
        expect(page.locator("header nav")).to_have_count(0)
        expect(page.get_by_text("SIMULATED", exact=True)).to_be_visible()
        expect(page.locator("li.tile.red")).to_have_count(1, timeout=90_000)
        expect(page.locator('link[rel="icon"]')).to_have_attribute("href", re.compile("-red"))
        assert page.evaluate(GROUND) != light
        assert violations(page) == []
        page.evaluate("window.thisVeryPage = true")
        first.process.send_signal(signal.SIGKILL)
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("No data for"))
        expect(page.locator(".wall footer .link")).to_have_text("stale")
    with serving(tmp_path, "--no-history", simulate=3, port=port):
        expect(tiles(page)).to_have_count(3)
        expect(page.locator(".wall footer .link")).to_have_text("live")
        assert page.evaluate("window.thisVeryPage") is True
        page.keyboard.press("Escape")
        expect(page.locator("header nav")).to_be_visible()
        assert page.evaluate(GROUND) == light, "the theme that was chosen is kept"


@pytest.mark.long
def test_one_gpu_has_large_numbers_and_none_one_card(seen: Window, tmp_path: Path) -> None:
    page = seen.page
    with serving(tmp_path / "one", "--no-history", simulate=1) as served:
        page.goto(served.url)
        values = tiles(page).locator(".value")
        expect(values.first).to_have_text(re.compile(r"^\d+\s%utilisation$"))
        expect(tiles(page).locator(".sparkline")).to_have_count(0)
        assert violations(page) == []
    with serving_node(tmp_path / "none", "--no-history", ANDON_ROOT=str(tmp_path)) as served:
        page.goto(served.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("No GPU")
        assert page.get_by_role("main").inner_text().count("No GPU") == 1
        assert violations(page) == []


def test_values_move_gently_unless_that_is_not_wanted(reader: Window, home: Served) -> None:
    reader.page.goto(f"{home.url}/#/")
    meter = tiles(reader.page).first.locator(".meter span")
    reader.page.emulate_media(reduced_motion="no-preference")
    expect(meter).to_have_css("transition-duration", "0.2s")
    reader.page.emulate_media(reduced_motion="reduce")
    expect(meter).to_have_css("transition-duration", "0s")
