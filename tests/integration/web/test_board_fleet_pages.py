"""The pages of a hub about all of its nodes: found, filtered, paged, on a wall and on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.board import opened, sign_in, violations, violations_in_both_themes
from tests.integration.browser import Window
from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.played_fleet import playing
from tests.support.postgres import server

pytestmark = pytest.mark.process

NODES = 60
ROUTES = (
    "fleet?view=map", "alerts?show=ended", "leases", "jobs", "runs?on=n03", "user/bob", "wall",
)  # fmt: skip
MORE_ROUTES = (  # of whose parts these or a node's own pages are made
    "fleet", "fleet?group=label", "alerts", "processes", "leases?show=waiting",
    "leases?show=cordon", "runs", "charts", "estimate", "health",
)  # fmt: skip


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, url = tmp_path_factory.mktemp("fleet-pages"), server().schema("fleet_pages")
    book = own_folders(folder / "hub")["ANDON_LEASE_DIR"]
    serve = serving(
        folder / "hub", "--store", url, simulate=None, ANDON_LEASE_DIR=book, ANDON_NODE="hub"
    )
    with serve as found, playing(url, NODES, past=4):
        yield found


@pytest.fixture(scope="module")
def window(browser: Browser, hub: Served) -> Iterator[Window]:
    with opened(browser) as found:
        sign_in(found.page, hub)
        yield found


@pytest.fixture
def page(window: Window) -> Page:
    window.page.set_viewport_size({"width": 1280, "height": 900})
    return window.page


@pytest.mark.parametrize(
    "route", [*ROUTES, *(pytest.param(one, marks=pytest.mark.long) for one in MORE_ROUTES)]
)
def test_every_route_of_a_hub_passes_axe(page: Page, hub: Served, route: str) -> None:
    page.goto(f"{hub.url}/#/{route}")
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    ("route", "said"),
    [("alerts", "criticaln03GPU 5GPU 5 fell off the bus"),
     ("alerts?show=ended", "resolvedn00GPU 1GPU 1 was too hot (90 °C, slows down at 89 °C)warning"),
     ("processes", "n00GPU 0alicetrain_0.py81.8 GiB"),
     ("leases", "n02GPU 0, 3, 6caroltrain_2.py"),
     ("leases?show=waiting", "n02place 1wants 2 GPUsdora60.0 GiB"),
     ("leases?show=cordon", "n04GPU 7a new fan on Mondayroot"),
     ("jobs", "waitingn008 eval-0alicewants 2")],
)  # fmt: skip
def test_a_page_has_what_all_nodes_have(page: Page, hub: Served, route: str, said: str) -> None:
    page.goto(f"{hub.url}/#/{route}")
    expect(page.locator(".on-nodes").get_by_role("status")).to_contain_text(f"{NODES} nodes")
    expect(page.locator(".on-nodes tbody").first).to_contain_text(said)
    assert page.locator(".on-nodes tbody tr").count() <= 100


def test_it_is_filtered_sorted_and_paged_in_the_address(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/processes")
    status = page.locator(".on-nodes").get_by_role("status")
    expect(status).to_contain_text(re.compile(r"\d{3} processes on 60 nodes"))
    page.get_by_role("button", name="more ▶").click()
    expect(page.locator(".pages")).to_contain_text("101–200 of")
    page.get_by_role("combobox", name="node", exact=True).select_option("n17")
    page.get_by_role("combobox", name="user", exact=True).select_option("carol")
    expect(status).to_contain_text("2 processes")
    expect(page.locator(".on-nodes tbody tr")).to_have_count(2)
    page.get_by_role("button", name="memory").click()
    assert page.evaluate("location.hash") == "#/processes?on=n17&who=carol&by=-memory"
    page.reload()
    expect(page.locator(".on-nodes tbody tr")).to_have_count(2)
    link = page.locator(".on-nodes tbody tr").first.get_by_role("link", name="train_17.py")
    expect(link).to_have_attribute("href", re.compile(r"^/\?node=n17#/process/1"))
    link.click()
    expect(page.get_by_role("navigation", name="hub")).to_contain_text("n17")
    page.goto(f"{hub.url}/#/alerts?q=thermal+silenced")
    expect(page.locator(".on-nodes tbody")).to_contain_text("n57")


def test_each_kind_of_line_has_its_number_and_is_chosen(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/leases?on=n04")
    show = page.get_by_role("group", name="show")
    expect(show.get_by_role("button")).to_have_text(
        ["2 leases", "1 waiting request", "1 GPU out of service"]
    )
    show.get_by_role("button", name="out of service").click()
    assert page.evaluate("location.hash") == "#/leases?on=n04&show=cordon"
    expect(page.locator(".on-nodes tbody tr")).to_have_count(1)
    link = page.get_by_role("link", name="a new fan on Monday")
    expect(link).to_have_attribute("href", re.compile(r"^/\?node=n04#/device/GPU-00000004-0007"))


def test_the_runs_of_a_node_are_no_others(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/runs")
    page.get_by_role("combobox", name="node", exact=True).select_option("n03")
    expect(page.get_by_role("status").first).to_have_text("1 of 4 runs")
    listed = hub.ask("/api/runs?node=n03", **hub.bearer).json()
    assert [one["node"] for one in listed["items"]] == ["n03"]
    assert hub.ask("/api/runs?node=n0", **hub.bearer).json()["total"] == 0


def test_the_badge_counts_the_alerts_of_all_nodes(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/jobs")
    badge = page.get_by_role("navigation", name="pages").locator(".badge")
    expect(badge).to_have_text(re.compile("^[45]$"))  # the hub itself says who is silent


def test_find_finds_what_is_on_any_node(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/fleet")
    found = page.get_by_role("listbox", name="found")
    for typed, kind, title in (
        ("n17:3", "GPU", "n17:3"), ("n41", "node", "n41"), ("erik", "user", "erik"),
        ("eval-12", "job", "Job 8 eval-12"), ("train-2", "run", "Run train-2"),
        ("bus n53", "alert", "GPU 5 fell off the bus"),
    ):  # fmt: skip
        page.get_by_role("button", name="find anything").click()
        page.get_by_role("combobox", name="find anything").fill(typed)
        row = found.get_by_role("option").filter(has_text=title).filter(has_text=kind)
        expect(row.first).to_be_visible()
        page.keyboard.press("Escape")
    page.get_by_role("button", name="find anything").click()
    page.get_by_role("combobox", name="find anything").fill("n17:3")
    expect(found.get_by_role("option").first).to_contain_text("n17:3")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{hub.url}/?node=n17#/device/3")


def test_a_day_is_a_line_whose_gaps_stay(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/fleet?q=n01")
    day = page.get_by_role("img", name="the last day: mean")
    line = day.locator("path.line")
    assert (line.get_attribute("d") or "").count("M") == 2, "a gap of two hours is no line"
    page.goto(f"{hub.url}/#/fleet?q=n41")
    expect(page.locator("td.day")).to_have_text("–")
    page.goto(f"{hub.url}/#/charts")
    expect(page.locator(".whole-fleet")).to_contain_text("4 nodes of 60")
    time = page.get_by_role("slider", name="time")
    time.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".whole-fleet").get_by_role("status")).to_contain_text(":")
    expect(page.locator(".node-days li")).to_have_count(NODES)


def test_the_list_is_grouped(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/fleet")
    page.get_by_label("group").select_option("label")
    expect(page.locator("tr.group").first).to_contain_text("drained: 2 nodes")
    page.get_by_label("group").select_option("state")
    expect(page.locator("tr.group").first).to_contain_text("sick:")


def test_the_wall_has_every_node_on_one_screen_the_worst_first(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/wall")
    cells = page.locator(".wall-cells li")
    expect(cells).to_have_count(NODES)
    expect(cells.first).to_have_class(re.compile("red"))
    expect(cells.last).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollHeight") <= 900
    assert violations(page) == []


def test_a_model_is_placed_on_the_nodes_with_room(page: Page, hub: Served) -> None:
    page.goto(f"{hub.url}/#/estimate?model=llama-3-8b")
    fits = page.get_by_role("region", name="on other nodes")
    expect(fits.get_by_role("row").nth(1)).to_contain_text("GiB")
    assert violations_in_both_themes(page) == []


def test_who_is_not_signed_in_sees_no_names_of_jobs(browser: Browser, hub: Served) -> None:
    with opened(browser) as seen:
        seen.page.goto(f"{hub.url}/#/jobs")
        table = seen.page.locator(".on-nodes tbody").first
        expect(table).to_contain_text("waitingn008")
        expect(table).not_to_contain_text("eval-0")


def test_nothing_went_wrong_in_the_browser(window: Window, hub: Served) -> None:
    assert window.complaints == []
    assert window.strangers(hub.url) == []
