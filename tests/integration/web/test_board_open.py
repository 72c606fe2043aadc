"""How a person comes in: the link of `andon open`, what a browser keeps of it, and the help."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.integration.board import (
    chart_heights,
    code,
    drawn,
    link,
    sign_in,
    tiles,
    violations,
)
from tests.integration.browser import Window
from tests.integration.serving import Served, serving
from tests.support.waiting import wait_for

DEVICES = 4
KEPT = "({...localStorage})"
REFUSED = "the link has expired or was already used"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), simulate=DEVICES) as served:
        yield served


def secret(page: Page) -> str:
    found: str = page.evaluate("sessionStorage.getItem('andon.secret') ?? ''")
    return found


def code_of(address: str) -> str:
    return parse_qs(urlsplit(address).fragment)["code"][0]


def use(page: Page, address: str) -> None:
    """Open it in a tab that is signed in, until it has a new session."""
    before = secret(page)
    page.goto(address)
    wait_for(lambda: secret(page) not in ("", before))


def test_a_link_signs_in_and_leaves_nothing_behind(seen: Window, home: Served) -> None:
    address, page = link(home), seen.page
    page.goto(address)
    expect(page.get_by_text("signed in")).to_be_visible()
    held = secret(page)
    assert len(held) > 20
    assert page.url == f"{home.url}/#/"
    assert page.evaluate("history.length") <= 2  # no way back to the code
    assert page.context.cookies() == []
    assert held not in str(page.evaluate(KEPT))
    assert code_of(address) not in page.content() + str(page.evaluate("({...sessionStorage})"))
    asked = " ".join(seen.requests)
    assert held not in asked
    assert code_of(address) not in asked  # a fragment stays in the browser
    assert seen.complaints == []


def test_a_link_that_was_used_is_refused_in_words(
    reader: Window, owner: Window, home: Served
) -> None:
    address, page = f"{home.url}/#code={code(home)}", reader.page
    use(owner.page, address)
    page.goto(address)
    notice = page.locator("section.notice.bad")
    expect(notice).to_contain_text(REFUSED)
    expect(notice.get_by_role("link", name="how to sign in")).to_be_visible()
    expect(page.get_by_text("read-only: run")).to_be_visible()
    expect(tiles(page)).to_have_count(DEVICES)
    assert secret(page) == ""
    assert "code" not in page.url
    assert violations(page) == []
    notice.get_by_role("button", name="close this notice").click()
    expect(notice).to_be_hidden()
    page.get_by_role("link", name="Processes").click()
    expect(notice).to_be_hidden()
    page.goto(address)
    expect(page.get_by_text(REFUSED)).to_be_visible()
    sign_in(page, home)  # by a new one, in the same tab
    expect(page.get_by_text(REFUSED)).to_be_hidden()
    page.get_by_role("button", name="sign out").click()
    expect(page.get_by_text("read-only: run")).to_be_visible()


def test_an_old_link_does_not_end_a_session(owner: Window, home: Served) -> None:
    address = f"{home.url}/#code={code(home)}"
    use(owner.page, address)
    held = secret(owner.page)
    owner.page.goto(address)
    expect(owner.page.get_by_text(REFUSED)).to_be_visible()
    assert secret(owner.page) == held
    expect(owner.page.get_by_text("signed in as")).to_be_visible()


def test_a_session_is_that_of_every_tab(owner: Window, home: Served) -> None:
    owner.page.goto(f"{home.url}/#/")
    owner.page.reload()
    expect(owner.page.get_by_text("signed in as")).to_be_visible()
    with owner.page.context.expect_page() as other:
        owner.page.evaluate("open(location.href, '_blank', 'noopener')")
    expect(other.value.get_by_text("signed in as")).to_be_visible()
    other.value.close()


def test_the_help_is_closed_by_its_button(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    opener = page.get_by_role("button", name="help")
    dialog = page.get_by_role("dialog")
    for _ in range(2):  # it opens again after it was closed
        opener.click()
        expect(dialog).to_be_visible()
        expect(dialog.get_by_role("button", name="Close")).to_be_focused()
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_be_hidden()
        expect(opener).to_be_focused()
    opener.press("Enter")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    assert reader.complaints == []


def test_four_devices_use_the_whole_width(reader: Window, home: Served) -> None:
    page = reader.page
    page.goto(f"{home.url}/#/")
    expect(tiles(page)).to_have_count(DEVICES)
    for width, height in ((1280, 720), (1280, 800), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        drawn(page)
        edges = "all => Math.max(...all.map(one => one.getBoundingClientRect().right))"
        assert tiles(page).evaluate_all(edges) >= width - 24, width
        tall = page.evaluate("document.documentElement.scrollHeight - innerHeight")
        assert tall <= 0, (width, height)
        if (width, height) == (1280, 800):  # they had 9 pixels below large words
            assert min(chart_heights(page)) >= 50
