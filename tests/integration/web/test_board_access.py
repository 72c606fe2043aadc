"""Who am I here? What the board shows to people without a key, and to those who signed in."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from andon.host.users import user_name
from tests.integration.board import (
    drawn,
    opened,
    sign_in,
    tiles,
    violations,
    violations_in_both_themes,
)
from tests.integration.browser import Window
from tests.integration.parts import free_port
from tests.integration.serving import Served, andon, serving

ROUTES = ("#/", "#/processes", "#/alerts", "#/leases", "#/health", "#/device/SIM-0", "#/fleet")
EMPTY = ("No GPU processes", "No active alerts", "No leases", "not responding", "Loading")
ME = user_name(os.getuid())


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("outside")
    with serving(folder, "--host", "0.0.0.0", "--no-history") as served:
        yield served


def test_who_may_not_see_is_told_how_to_sign_in_on_every_page(
    reader: Window, outside: Served
) -> None:
    page, url = reader.page, f"http://127.0.0.1:{outside.port}"
    for route in ROUTES:
        page.goto(f"{url}/{route}")
        drawn(page)
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to see this node")
        expect(page.get_by_text("not signed in", exact=True)).to_be_visible()
        expect(page.get_by_text(f"andon open --url {url}", exact=True)).to_be_visible()
        expect(tiles(page)).to_have_count(0)
        shown = page.locator("body").inner_text()
        assert not [words for words in EMPTY if words in shown], (route, shown)
    assert violations(page) == []  # what is shown instead is the same page on every route


def test_one_who_signs_in_sees_the_page_that_was_asked_for(reader: Window, outside: Served) -> None:
    page, url = reader.page, f"http://127.0.0.1:{outside.port}"
    page.goto(f"{url}/#/processes")
    expect(page.get_by_role("heading", name="Sign in to see this node")).to_be_visible()
    done = andon(outside.state, "open", "--print", "--url", url)
    assert done.code == 0, done.err
    page.goto(done.out.strip())
    expect(page.get_by_text(f"signed in as {ME}")).to_be_visible()
    expect(tiles(page)).to_have_count(2)
    page.get_by_role("button", name="sign out").click()
    expect(page.get_by_role("heading", name="Sign in to see this node")).to_be_visible()


def test_the_owner_signs_a_phone_in_once_with_a_code_from_the_board(
    browser: Browser, seen: Window, outside: Served
) -> None:
    page, url = seen.page, f"http://0.0.0.0:{outside.port}"  # no address of this machine alone
    code = outside.ask("/api/links", "POST", **outside.bearer).json()["code"]
    page.goto(f"{url}/#code={code}")
    page.get_by_role("button", name="sign in a phone").click()
    sheet = page.get_by_role("dialog", name="Sign in a phone")
    expect(sheet.get_by_role("img", name="the link as a QR code")).to_be_visible()
    expect(sheet).to_contain_text("It works once, for another")
    address = sheet.get_by_label("sign-in link").input_value()
    assert address.startswith(f"{url}/#code=")
    assert address.partition("=")[2] not in " ".join(seen.requests), "no log has it"
    assert violations_in_both_themes(sheet) == []
    with opened(browser) as phone:
        phone.page.goto(address)
        expect(phone.page.get_by_text(f"signed in as {ME}")).to_be_visible()
        phone.page.get_by_role("button", name="sign out").click()
        expect(phone.page.get_by_text("not signed in", exact=True)).to_be_visible()
        phone.page.goto(address)
        expect(phone.page.get_by_text("the link has expired or was already used")).to_be_visible()
    page.clock.install()
    page.clock.fast_forward(150_000)
    expect(sheet).to_contain_text("The link has expired.")
    sheet.get_by_role("button", name="New link").click()
    expect(sheet.get_by_label("sign-in link")).not_to_have_value(address)


def test_a_session_outlives_the_server_and_the_tab_need_not_sign_in_again(
    seen: Window, tmp_path: Path
) -> None:
    port = free_port()
    with serving(tmp_path, "--no-history", port=port) as served:
        sign_in(seen.page, served)
        expect(seen.page.get_by_text(f"signed in as {ME}")).to_be_visible()
    with serving(tmp_path, "--no-history", port=port):
        seen.page.reload()
        expect(seen.page.get_by_text(f"signed in as {ME}")).to_be_visible()
        assert andon(tmp_path, "open", "--revoke").code == 0
        expect(seen.page.get_by_text("your session has ended")).to_be_visible()
        seen.page.reload()
        expect(seen.page.get_by_text("your session has ended")).to_be_visible()
        expect(seen.page.get_by_text(f"andon open --url http://127.0.0.1:{port}")).to_be_visible()
