"""The server's page in a real browser: what a person sees, and what the page keeps to itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.browser import Window, chromium, window
from tests.integration.parts import free_port
from tests.integration.serving import Served, serving
from tests.integration.test_serve import andon

DEVICES = 3
COMMANDS = "li span[title]:not([title^='pid '])"
"""Where a process shows its command line; to strangers it shows its number instead."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), "--no-history", simulate=DEVICES) as served:
        yield served


@pytest.fixture
def seen(browser: Browser) -> Iterator[Window]:
    with window(browser) as opened:
        yield opened


def test_it_shows_every_device_and_says_that_they_are_simulated(seen: Window, home: Served) -> None:
    seen.page.goto(home.url)
    expect(seen.page.get_by_role("article")).to_have_count(DEVICES)
    expect(seen.page.get_by_text("SIMULATED", exact=True)).to_be_visible()
    expect(seen.page.get_by_text("H200 (simulated)").first).to_be_visible()
    expect(seen.page).to_have_title(re.compile(r"^SIMULATED .+ – andon$"))
    assert not seen.complaints


def test_what_it_shows_is_new_every_second(seen: Window, home: Served) -> None:
    seen.page.goto(home.url)
    expect(seen.page.get_by_role("article")).to_have_count(DEVICES)
    before = seen.page.locator("main").inner_text()
    expect(seen.page.locator("main")).not_to_have_text(before, use_inner_text=True)
    assert sum(url.endswith("/api/snapshot") for url in seen.requests) >= 2


def test_nothing_is_asked_of_anyone_else(seen: Window, home: Served) -> None:
    seen.page.goto(home.url)
    expect(seen.page.get_by_role("article")).to_have_count(DEVICES)
    with seen.page.expect_response("**/api/snapshot"):
        pass
    assert len(seen.requests) >= 4
    assert seen.strangers(home.url) == []
    assert seen.complaints == [], "the page's policy forbids other places"


def test_a_link_signs_in_once_and_leaves_no_trace(
    browser: Browser, seen: Window, home: Served
) -> None:
    link = andon(home.state, "open", "--url", home.url, "--print").out.strip()
    code = link.partition("#code=")[2]
    assert code
    seen.page.goto(link)
    expect(seen.page.get_by_text("signed in")).to_be_visible()
    secret = seen.page.evaluate("Object.values(sessionStorage).join()")
    assert len(secret) >= 43
    assert seen.page.url == f"{home.url}/"
    assert seen.page.evaluate("localStorage.length + document.cookie.length") == 0
    assert seen.page.context.cookies() == []
    assert not [url for url in seen.requests if code in url or secret in url]
    expect(seen.page.locator(COMMANDS).first).to_be_attached()
    with window(browser) as other:
        other.page.goto(link)
        expect(other.page.get_by_text("used before")).to_be_visible()
        assert other.page.evaluate("sessionStorage.length") == 0


def test_without_a_link_no_command_line_is_shown(seen: Window, home: Served) -> None:
    seen.page.goto(home.url)
    expect(seen.page.get_by_role("article")).to_have_count(DEVICES)
    expect(seen.page.get_by_role("listitem").first).to_be_visible()
    expect(seen.page.locator(COMMANDS)).to_have_count(0)


def test_it_says_that_the_server_is_away_and_goes_on_when_it_is_back(
    seen: Window, tmp_path: Path
) -> None:
    port = free_port()
    with serving(tmp_path, "--no-history", simulate=1, port=port) as first:
        seen.page.goto(first.url)
        expect(seen.page.get_by_role("article")).to_have_count(1)
        first.process.kill()
        expect(seen.page.get_by_text("the server does not answer")).to_be_visible()
    with serving(tmp_path, "--no-history", simulate=2, port=port):
        expect(seen.page.get_by_role("article")).to_have_count(2)
        expect(seen.page.get_by_role("alert")).to_be_hidden()
