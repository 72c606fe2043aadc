"""The pages of a process and of a user: what they did, and what is not known about it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.integration.board import violations_in_both_themes
from tests.integration.browser import Window
from tests.integration.serving import Served, serving

DAY = {"day": "2026-11-16", "device_seconds": 7200.0, "energy_joules": None, "idle_share": None}
SHARE = {"device_seconds": 7200.0, "idle_share": 0.25, "held_idle_share": None,
         "energy_joules": 3.6e6, "days": [DAY]}  # fmt: skip
WEEK = {"since": 0, "until": 1, "price_per_kwh": None, "currency": None}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), simulate=8) as served:
        yield served


def user_of_the_server_process(home: Served) -> str:
    """Who serves a model: that process stays; who else is on a GPU depends on the hour."""
    processes = [
        one for gpu in home.ask("/api/snapshot").json()["devices"] for one in gpu["processes"]
    ]
    return next(str(one["user"]) for one in processes if "vllm" in (one["program"] or ""))


def test_a_process_has_a_page_with_its_memory_and_use_over_time(
    reader: Window, home: Served
) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/processes")
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="vllm")).first
    user = row.get_by_role("cell").nth(2).inner_text()
    row.get_by_role("link", name="vllm").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("vllm")
    expect(page).to_have_url(re.compile(r"#/process/\d+-[\d.]+$"))
    expect(page.locator(".cards dd").first).to_have_text(re.compile(r"[\d.]+\sGiB"))
    expect(page.get_by_role("slider", name="Its memory: instant")).to_be_visible()
    expect(page.locator("canvas")).to_have_count(4)
    expect(page.get_by_text(re.compile("used it meanwhile|shared meanwhile with"))).to_be_visible()
    assert violations_in_both_themes(page.get_by_role("main")) == []
    page.get_by_role("link", name=user, exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(user)
    page.goto(f"{home.url}/#/process/1-5")
    expect(page.get_by_text("Process 1 is not known")).to_be_visible()


def test_a_user_has_a_page_and_what_is_not_known_says_why(reader: Window, home: Served) -> None:
    page, user = reader.page, user_of_the_server_process(home)

    def week(route: Route) -> None:
        route.fulfill(json={**WEEK, "items": [{"user": user, **SHARE}]})

    page.route("**/api/users", week)
    page.goto(f"{home.url}/#/user/{user}")
    sums = page.locator(".sums")
    expect(sums).to_contain_text(re.compile(r"2\.0\sh.*25\s%.*1\.00\skWh"))
    expect(sums).to_contain_text("no price is set (runs.price_per_kwh)")
    expect(sums.locator("dd").nth(2)).to_have_text("not known")
    expect(page.locator(".days li")).to_have_text(re.compile(r"2\.0\sh energy not known"))
    expect(page.get_by_role("region", name="GPUs now").get_by_role("link").first).to_be_visible()
    assert violations_in_both_themes(page.get_by_role("main")) == []
    page.goto(f"{home.url}/#/user/nobody-here")
    expect(page.get_by_text("No GPU use of theirs is recorded")).to_be_visible()
    expect(page.get_by_text("No process of theirs is on a GPU")).to_be_visible()


def test_months_of_a_user_and_of_groups_have_idle_energy_and_cost(
    reader: Window, home: Served
) -> None:
    page = reader.page
    asked: list[str] = []
    january = {**DAY, "day": "2026-01", "energy_joules": 7.2e6, "idle_share": 0.25}
    february = {**DAY, "day": "2026-02", "device_seconds": 36000.0}

    def months(route: Route) -> None:
        asked.append(route.request.url)
        name = "vision" if "by=group" in route.request.url else "ada"
        other = {"user": "bob", **SHARE, "days": [january]}
        items = [{"user": name, **SHARE, "days": [january, february]}, other]
        route.fulfill(json={**WEEK, "price_per_kwh": 0.5, "currency": "EUR", "items": items})

    page.route(re.compile(r"/api/users\?each=month"), months)
    page.goto(f"{home.url}/#/user/ada")
    page.reload()  # what another test was answered is kept for ten minutes
    table = page.get_by_role("region", name="by month")
    rows = table.get_by_role("row")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_have_text(re.compile(r"February 2026\s*ada\s*10\.0\sh\s*–\s*–\s*–"))
    expect(rows.nth(2)).to_have_text(
        re.compile(r"January 2026\s*ada\s*2\.0\sh\s*25\s%\s*2\.00\skWh\s*1\.00")
    )
    expect(page.get_by_text("at 0.5 EUR per kWh")).to_be_visible()
    page.get_by_label("whose months").select_option("groups")
    expect(table.get_by_role("cell", name="vision")).to_have_count(2)
    page.get_by_label("whose months").select_option("every user")
    expect(rows).to_have_count(4)
    assert len(asked) == 2
    assert violations_in_both_themes(page.get_by_role("main")) == []
