"""The fleet page of a hub with 500 nodes, and the board of one that really reports."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, expect

from andon.fleet.rules.digest import Digest, FreeDevices, NodeSpan, NodeTask, encoded
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.model.job.facts import JobState, JobView
from andon.model.wire import snapshot_to_json
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind
from andon.version import __version__
from tests.integration.board import opened, sign_in, violations, violations_in_both_themes
from tests.integration.browser import Window
from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.played_fleet import again_and_again
from tests.support.postgres import server
from tests.support.snapshots import farm

pytestmark = pytest.mark.process

NODES = 500
JSON = {"Content_Type": "application/json"}
PATIENCE_MS = 5000


def digest(number: int) -> Digest:
    """One in 50 is sick, one in 10 has free GPUs, one in 25 holds some that are idle."""
    model = ("H200", "A100-SXM4", "RTX 4090")[number % 3]
    free = FreeDevices(model, ("6", "7"), (80_000, 80_000))
    return Digest(
        f"n{number:03}", f"m{number}", "0.0.9" if number == 21 else __version__, gpus=8,
        models={model: 8}, allocated=6, tasks=2,
        reason="GPU 3: fell off the bus" if number % 50 == 7 else None,
        holders=(NodeTask("alice", None, number),), users=("alice" if number % 2 else "bob",),
        utilization_percent=float(number % 100), memory_percent=40.0,
        idle=2 if number % 25 == 3 else 0, free=(free,) if number % 10 == 0 else (),
        gpu_states=tuple(
            f"{place} {'broken - -' if number % 50 == 7 and place == 3 else f'held {place}0 40'}"
            for place in range(8)
        ),
        spans=spans(number),
    )  # fmt: skip


def spans(number: int) -> tuple[NodeSpan, ...]:
    """On one in 100 carol holds a GPU for an hour, and dora has reserved others for tomorrow."""
    now = time.time()
    held = NodeSpan("carol", "4", now, now + 3600)
    return (NodeSpan("dora", "0–3", now + 86_400, now + 2 * 86_400, True), held) * (
        number % 100 == 5
    )


NOTHING = deflated({})
TWICE = "n030"
"""A node on which two users have a job of one number."""


def twice_seven() -> bytes:
    jobs = [
        JobView(7, "7", f"train-{user}", JobState.WAITING, "python train.py", "/", user, 1.0, "1")
        for user in ("ada", "bob")
    ]
    return deflated({"snapshot": snapshot_to_json(farm()), "jobs": jobs})


class Reports:
    """Puts the reports of 500 nodes into the database; one in 100 has been silent for long."""

    def __init__(self, url: str) -> None:
        self._store = PostgresKind.open_nodes(parse_store_url(url))
        self._digests = [encoded(digest(number)) for number in range(NODES)]
        known = deflated({"snapshot": snapshot_to_json(replace(farm(), node="n099"))})
        self._parts = {TWICE: twice_seven(), "n099": known}

    def __call__(self, sequence: int) -> None:
        now, beats = time.time(), list[Heartbeat]()
        for number, made in enumerate(self._digests):
            name, silent = f"n{number:03}", number % 100 == 99
            if sequence == 1:
                self._store.put(FleetNode(name, f"{number}", now, drained=number == 20))
            if sequence == 1 or not silent:
                at = now - 120 if silent else now
                parts = self._parts.get(name, NOTHING)
                beats.append(Heartbeat(name, "s", sequence, at, at, made, parts))
        self._store.take(beats)

    def close(self) -> None:
        self._store.close()


@pytest.fixture(scope="module")
def url() -> str:
    return server().schema("fleet_board")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fleet-board")
    book = own_folders(folder / "hub")["ANDON_LEASE_DIR"]
    serve = serving(
        folder / "hub", "--store", url, simulate=None, ANDON_LEASE_DIR=book, ANDON_NODE="hub"
    )
    with serve as found, closing(Reports(url)) as reports, again_and_again(reports):
        token = found.ask("/api/nodes", "POST", '{"name": "x17"}', **JSON, **found.bearer).json()[
            "token"
        ]
        own = own_folders(folder / "x17")
        surroundings = {**os.environ, **own, "ANDON_HUB_TOKEN": token, "ANDON_NODE": "x17"}
        command = [sys.executable, "-m", "andon.cli", "agent", "--hub", found.url, "--simulate"]
        agent = subprocess.Popen(
            [*command, "8"], stdout=subprocess.PIPE, text=True, env=surroundings
        )
        try:
            assert agent.stdout is not None
            assert agent.stdout.readline()
            yield found
        finally:
            agent.terminate()
            agent.communicate(timeout=30)


@pytest.fixture(scope="module")
def window(browser: Browser, hub: Served) -> Iterator[Window]:
    with opened(browser) as found:
        sign_in(found.page, hub)
        yield found


def test_the_fleet_is_the_first_page_and_says_what_needs_someone(
    window: Window, hub: Served
) -> None:
    page = window.page
    page.goto(hub.url)
    expect(page).to_have_url(f"{hub.url}/#/fleet")
    expect(page.locator(".fleet .sum")).to_contain_text("501 nodes · 4008 GPUs")
    headline = page.get_by_role("heading", level=1)
    expect(headline).to_contain_text(re.compile(r"n0?07: GPU 3: fell off the bus"))
    expect(headline).to_contain_text(
        re.compile(r"more need attention\s· \d+ GPUs free on \d+ nodes")
    )
    sums = page.get_by_role("group", name="show only").get_by_role("button")
    expect(sums.nth(0)).to_contain_text(re.compile("1[01] sick"))  # x17 gets hot
    expect(sums.nth(2)).to_contain_text("40 idle but held GPUs on 20 nodes")
    expect(sums.nth(3)).to_contain_text("5 silent")
    first = page.locator("tr.node").first
    expect(first).to_contain_text("n007")
    expect(first).to_contain_text("GPU 3: fell off the bus")
    assert page.locator("tr.node").count() < 60, "only rows in sight are drawn"
    page.goto(f"{hub.url}/#/fleet?q=n021")
    expect(page.locator("tr.node")).to_contain_text(f"healthy: andon 0.0.9, the hub {__version__}")
    page.goto(f"{hub.url}/#/fleet")
    expect(first).to_contain_text("n007")
    broken = first.locator(".square.broken")
    expect(broken).to_have_attribute("title", "GPU 3: needs help now")
    expect(broken).to_have_attribute("href", "/?node=n007#/device/3")
    for width in (1024, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations_in_both_themes(page) == []


def test_a_filter_is_in_the_address_and_a_link_shows_the_same(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/#/fleet")
    page.get_by_role("button", name="silent").click()
    expect(page.locator("tr.node")).to_have_count(5)
    expect(page.locator("tr.node").first).to_contain_text("silent 2 min")
    page.get_by_role("button", name="silent").click()
    page.get_by_label("user").select_option("alice")
    page.get_by_label("model").select_option("H200")
    page.get_by_label("name", exact=False).first.fill("n10")
    expect(page.get_by_role("status").filter(has_text="of 501")).to_be_visible()
    address = page.evaluate("location.hash")
    assert address == "#/fleet?user=alice&model=H200&q=n10"
    page.reload()
    expect(page.locator("tr.node")).to_have_count(1)
    page.get_by_role("button", name="show all").click()
    assert page.evaluate("location.hash") == "#/fleet"


def test_pages_of_a_silent_node_say_so_where_they_know_nothing(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/?node=n099#/")
    expect(page.locator("li.tile").nth(2)).to_contain_text("°C")
    expect(page.locator("li.tile").nth(2)).to_contain_text("n099 is silent")
    for place, words in (("alerts", "Its alerts are not known."),
                         ("processes", "Who uses its GPUs now is not known.")):  # fmt: skip
        page.goto(f"{hub.url}/?node=n099#/{place}")
        expect(page.locator("section.notice")).to_contain_text("n099 is silent")
        expect(page.locator("section.notice")).to_contain_text(words)
    expect(page.locator("main")).not_to_contain_text("0 processes")


def test_the_end_of_the_list_is_reached_by_scrolling_and_by_tab(
    window: Window, hub: Served
) -> None:
    page = window.page
    page.goto(f"{hub.url}/#/fleet?sort=node")
    expect(page.locator("tr.node").first).to_contain_text("n000")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.get_by_role("link", name="x17")).to_be_in_viewport()
    last = page.locator("tr.node").last
    expect(last).to_have_attribute("aria-rowindex", str(NODES + 2))
    page.evaluate("scrollTo(0, 0)")
    page.get_by_role("link", name="n000").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="n040")).to_be_focused()
    expect(page.get_by_role("link", name="n040")).to_be_in_viewport()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    last = page.locator("tr.node", has=page.get_by_role("link", name="n040"))
    expect(last.get_by_role("link", name="GPU 2: held, 20")).to_be_focused()


def test_all_nodes_are_on_a_map(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/#/fleet")
    page.get_by_role("button", name="map").click()
    expect(page.locator(".node-map li")).to_have_count(NODES + 1)
    page.get_by_label("group").select_option("model")
    expect(page.locator(".node-group h2").first).to_contain_text("A100-SXM4")
    assert page.evaluate("location.hash") == "#/fleet?view=map&group=model"
    page.get_by_role("button", name="list").click()
    expect(page.locator("tr.node").first).to_be_visible()


def test_a_node_leads_to_its_board_and_back(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/#/fleet?q=x17")
    page.get_by_role("link", name="x17").click()
    expect(page.locator("li.tile")).to_have_count(8)
    way = page.get_by_role("navigation", name="hub")
    expect(way).to_contain_text("x17")
    for title in ("Charts", "Processes", "Alerts", "Jobs", "Leases"):
        page.get_by_role("navigation", name="pages").get_by_role("link", name=title).click()
        expect(way.get_by_role("link", name="Fleet")).to_be_in_viewport()
        expect(page.get_by_role("heading", level=1).first).to_be_visible()
    free = page.locator(".free-now")
    expect(free.get_by_text("on x17:")).to_be_visible()
    expect(free.get_by_text("andon lease --devices 1 --for 2h")).to_be_visible()
    expect(free.get_by_role("button", name="Take")).to_have_count(0)
    asked = [one for one in window.requests if "/api/nodes/x17/" in one]
    assert any(one.endswith("/leases") for one in asked)
    assert violations(page.get_by_role("main")) == []
    page.goto(f"{hub.url}/#/node/x17/processes")
    expect(page).to_have_url(f"{hub.url}/?node=x17#/processes")
    page.locator("a[href^='#/process/']").first.click()
    expect(page.get_by_role("heading", name="Its own memory and use, last minutes")).to_be_visible()
    life = page.locator("section", has=page.get_by_role("heading", name="since it started"))
    expect(life).to_contain_text(re.compile("nobody else used it meanwhile|shared meanwhile with"))
    expect(life.locator(".chart canvas, .chart svg").first).to_be_visible()
    page.get_by_role("link", name="Estimate").click()
    page.get_by_label("model", exact=True).fill("llama-3-8b")
    expect(page.locator(".estimated")).to_contain_text("GPU 7")
    assert any(one.endswith("/api/nodes/x17/estimate") for one in window.requests)
    page.get_by_role("link", name="← Fleet").click()
    expect(page.locator("tr.node").first).to_be_visible()


def test_jobs_of_two_users_with_one_number_are_opened_each(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/?node={TWICE}#/jobs")
    expect(page.locator(".whose")).to_have_text(f"The jobs on {TWICE}")
    for user in ("ada", "bob"):
        row = page.get_by_role("row", name=user)
        row.get_by_role("link", name="7").click()
        expect(page.get_by_role("heading", name=f"Job 7 train-{user}")).to_be_visible()
        page.get_by_role("link", name="all jobs").click()
    assert all("503" in one for one in window.complaints), "the output of a job stays there"
    window.complaints.clear()
    said = hub.ask(f"/api/nodes/{TWICE}/jobs/7", **hub.bearer)
    assert said.status == 409
    assert "a job 7 of ada and one of bob" in said.json()["error"]["reason"]


def test_on_a_phone_and_while_the_hub_is_away(window: Window, hub: Served) -> None:
    page = window.page
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{hub.url}/#/fleet")
    expect(page.locator("tr.node").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []
    hub.process.send_signal(signal.SIGSTOP)
    try:
        expect(page.get_by_role("status").filter(has_text="no new data")).to_be_visible()
        expect(page.locator("section.fleet.old tr.node").first).to_be_visible()
    finally:
        hub.process.send_signal(signal.SIGCONT)
    expect(page.locator("section.fleet.old")).to_have_count(0)


def test_what_changes_is_shown_without_asking_again(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/#/fleet?q=n020")
    expect(page.locator("tr.node")).to_contain_text("drained")
    before = sum(one.endswith("/api/nodes") for one in window.requests)
    hub.ask("/api/nodes/n020/resume", "POST", **hub.bearer)
    expect(page.locator("tr.node")).not_to_contain_text("drained")
    assert sum(one.endswith("/api/nodes") for one in window.requests) == before


def test_the_week_of_all_nodes_is_on_the_leases_page_of_a_hub(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/#/leases")
    week = page.get_by_role("region", name="the week of all nodes")
    expect(week.locator(".row-title").first).to_have_text("n005")
    expect(week.get_by_text("5 reservations")).to_be_visible()
    expect(week.get_by_text("more nodes: narrow the search")).to_be_visible()
    bar = week.get_by_role("button", name=re.compile("0–3 · dora on n005: reserved from"))
    expect(bar).to_be_visible()
    expect(
        week.get_by_role("button", name=re.compile("4 · carol on n005: held, until"))
    ).to_be_visible()
    search = week.get_by_role("searchbox", name="nodes, users and models in the week")
    search.fill("dora n1")
    expect(week.locator(".row-title")).to_have_text(["n105"])
    search.fill("nobody")
    expect(week.get_by_text("No node matches.")).to_be_visible()
    search.fill("dora n1")
    assert violations(week) == []
    week.get_by_role("button", name=re.compile("0–3 · dora on n105")).click()
    page.wait_for_url("**/?node=n105#/leases")


def test_nothing_went_wrong_in_the_browser(window: Window, hub: Served) -> None:
    assert window.complaints == []
    assert window.strangers(hub.url) == []


def test_an_unknown_node_is_a_page_that_says_so(window: Window, hub: Served) -> None:
    page = window.page
    page.goto(f"{hub.url}/?node=n999#/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("n999")
    expect(page.get_by_role("contentinfo")).not_to_contain_text("connecting", timeout=PATIENCE_MS)
