"""The board's pages of jobs: the queue, one job with its output, and cancelling it."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, ViewportSize, expect

from tests.integration.board import sign_in, tiles, violations, violations_in_both_themes
from tests.integration.browser import Window
from tests.integration.serving import Served, andon, serving

ENV = {"ANDON_SIMULATE_SCENARIO": "idle"}
PHONE = ViewportSize(width=390, height=844)
PATIENCE_MS = 90_000
pytestmark = pytest.mark.timeout(300)  # jobs start processes, on a machine that may be busy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("home")
    ENV["ANDON_LEASE_DIR"] = str(tmp_path_factory.mktemp("x") / "book")
    with serving(
        state, "--no-history", simulate=1,
        ANDON_LEASE_DIR=ENV["ANDON_LEASE_DIR"],
        ANDON_SIMULATE_SCENARIO=ENV["ANDON_SIMULATE_SCENARIO"],
    ) as served:  # fmt: skip
        yield served
        andon(state, "cancel", "1", "2", **ENV)


def test_jobs_from_an_empty_page_to_a_cancelled_one(home: Served, seen: Window) -> None:
    page = seen.page
    sign_in(page, home)
    page.goto(f"{home.url}/#/jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible(timeout=PATIENCE_MS)
    for name, script in (
        ("train", "echo begun; echo step 3/10; sleep 600"),
        ("second", "echo two"),
    ):
        made = andon(home.state, "submit", "--simulate", "1", "--name", name, "--", "sh", "-c",
                     script, **ENV)  # fmt: skip
        assert made.code == 0, made.err
    expect(page.get_by_text("● running")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("1 running, 1 waiting, 0 ended")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator('td[data-name="state"]')).to_have_text(["● running", "◌ waiting"])
    assert violations(page.get_by_role("main")) == []
    why = page.locator('td[data-name="why"]').last
    told = why.inner_text()
    page.set_viewport_size(PHONE)
    room = why.evaluate("one => [one.clientWidth, one.scrollWidth - one.clientWidth]")
    assert room[0] > 200, told  # why it waits can be read on a phone
    assert room[1] <= 0, told
    page.set_viewport_size({"width": 1280, "height": 800})
    act_by_mouse_and_key(page)
    page.get_by_role("link", name="1", exact=True).first.click()
    expect(page.get_by_role("heading", name="Job 1 train")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("begun", timeout=PATIENCE_MS)
    assert violations(page.get_by_role("main")) == []
    page.locator("dl a[href*='#/runs/']").click()
    progress = page.locator(".run-box div", has_text="progress")
    expect(progress).to_contain_text("3/10 (30 %), step", timeout=PATIENCE_MS)
    page.goto(f"{home.url}/#/")
    expect(tiles(page).first).to_contain_text("3/10 (30 %), step", timeout=PATIENCE_MS)
    page.goto(f"{home.url}/#/jobs/1")
    page.get_by_role("button", name="Cancel this job").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Keep it")).to_be_focused()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_role("status").filter(has_text="cancelled")).to_be_visible(
        timeout=PATIENCE_MS
    )
    page.get_by_role("button", name="Retry").click()
    page.get_by_role("button", name="Queue it again").click()
    expect(page.get_by_role("status").filter(has_text="running")).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Move to other GPUs").click()
    page.get_by_role("button", name="Stop and queue it").click()
    expect(page.get_by_role("status").filter(has_text="waits again")).to_be_visible()
    page.get_by_role("button", name="Cancel this job").click()
    page.locator("dialog button.danger").click()
    page.set_viewport_size(PHONE)
    page.get_by_role("link", name="all jobs").click()
    expect(page.get_by_text("0 waiting, 2 ended")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("group").filter(has_text="2 ended").first).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]
    page.context.set_offline(True)  # the last known stays
    expect(page.get_by_text("Reconnecting (")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator('td[data-name="state"]').first).to_be_visible()


def act_by_mouse_and_key(page: Page) -> None:
    """Holds the waiting job from the timeline by key, and lets it wait again by mouse."""
    bars = page.get_by_role("group", name="jobs by GPU").get_by_role("button")
    expect(bars).to_have_count(2)
    bars.first.focus()
    page.keyboard.press("ArrowDown")
    expect(bars.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="job 2")).to_be_visible()
    assert "job=" in page.url
    page.keyboard.press("o")
    page.get_by_role("button", name="Hold it").click()
    expect(page.locator('td[data-name="state"]').last).to_contain_text("held")
    assert violations(page.get_by_role("main")) == []
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Resume it").click()
    expect(page.locator('td[data-name="state"]').last).to_contain_text("waiting")


def test_the_form_submits_what_rest_accepts_and_says_why_not(home: Served, seen: Window) -> None:
    page = seen.page
    page.goto(f"{home.url}/#/jobs")
    page.get_by_role("button", name="Submit a job…").click()
    dialog = page.get_by_role("dialog", name="Submit a job")
    expect(dialog.get_by_role("link", name="Sign in")).to_be_visible()
    expect(dialog.get_by_role("button", name="Submit the job")).to_have_count(0)
    dialog.get_by_label("command", exact=True).fill("python train.py")
    command = "copy: andon submit --simulate 1 --gpus 1 -- python train.py"
    expect(dialog.get_by_role("button", name=command)).to_be_visible()
    page.keyboard.press("Escape")
    sign_in(page, home)
    page.goto(f"{home.url}/#/jobs")
    page.get_by_role("button", name="Submit a job…").click()
    assert violations_in_both_themes(dialog) == []
    dialog.get_by_label("command", exact=True).fill("python train.py")
    dialog.get_by_role("button", name="Submit the job").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Not submitted: ")
    expect(dialog.get_by_role("button", name=command)).to_be_visible()
    asked: list[str | None] = []

    def accept(route: Route) -> None:
        asked.append(route.request.post_data)
        route.fulfill(status=201, json={"jobs": [1]})

    page.route("**/api/jobs", accept)
    dialog.get_by_label("memory").fill("2GiB")
    dialog.get_by_role("button", name="Submit the job").click()
    expect(dialog).to_be_hidden()
    assert page.url.endswith("#/jobs/1")
    assert [json.loads(one or "") for one in asked] == [
        {"command": ["python", "train.py"], "gpus": 1, "memory": "2GiB", "simulate": 1}
    ]


def test_while_the_server_is_away_the_page_says_so(home: Served, seen: Window) -> None:
    page = seen.page
    page.goto(home.url)
    expect(page.get_by_text("live", exact=True)).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_load_state("networkidle")  # the later pages are loaded
    page.route("**/api/jobs**", lambda route: None)  # never answered
    page.context.set_offline(True)
    expect(page.get_by_text("Reconnecting (")).to_be_visible(timeout=PATIENCE_MS)
    page.evaluate("location.hash = '#/jobs'")
    away = page.get_by_text("The server is away: jobs cannot be loaded until it is back.")
    expect(away.or_(page.get_by_text("the server is not responding")).first).to_be_visible()
    expect(page.get_by_text("Loading…")).to_have_count(0)
