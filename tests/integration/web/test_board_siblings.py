"""Tabs of one browser: a new one is signed in as its siblings are, and signing out ends all."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.integration.board import sign_in
from tests.integration.browser import Window
from tests.integration.serving import Served, andon, serving

SECRET = "sessionStorage.getItem('andon.secret')"
KEPT = "[JSON.stringify(localStorage), document.cookie].join()"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """Servers at two ports of one host."""
    with (
        serving(tmp_path_factory.mktemp("one"), "--no-history") as one,
        serving(tmp_path_factory.mktemp("two"), "--no-history") as other,
    ):
        yield one, other


def tab_of(page: Page, served: Served) -> Page:
    tab = page.context.new_page()
    tab.goto(f"{served.url}/#/leases")
    return tab


@pytest.mark.long
def test_a_new_tab_has_the_session_of_its_siblings_and_ends_with_it(
    seen: Window, two: tuple[Served, Served]
) -> None:
    page, (served, other) = seen.page, two
    sign_in(page, served)
    tab, stranger = tab_of(page, served), tab_of(page, other)
    expect(tab.get_by_text("signed in as")).to_be_visible()
    assert tab.evaluate(SECRET) == page.evaluate(SECRET), "one session, with one end"
    expect(stranger.get_by_text("read-only: run")).to_be_visible()
    assert stranger.evaluate(SECRET) is None, "another port is another server"
    secret = page.evaluate(SECRET)
    for one in (page, tab, stranger):
        assert secret not in one.evaluate(KEPT)
    page.close()
    third = tab_of(tab, served)
    expect(third.get_by_text("signed in as")).to_be_visible()
    third.get_by_role("button", name="sign out").click()
    for one in (tab, third):
        expect(one.get_by_text("read-only: run")).to_be_visible()
        assert one.evaluate(SECRET) is None
        expect(one.get_by_text("your session has ended")).to_have_count(0)
    fourth = tab_of(tab, served)
    expect(fourth.get_by_text("read-only: run")).to_be_visible()


def test_a_tab_without_a_sibling_and_one_that_was_there_before_stay_signed_out(
    seen: Window, two: tuple[Served, Served]
) -> None:
    before = seen.page
    before.goto(f"{two[0].url}/#/leases")
    expect(before.get_by_text("read-only: run")).to_be_visible()
    signed = before.context.new_page()
    sign_in(signed, two[0])
    tab = tab_of(signed, two[0])
    expect(tab.get_by_text("signed in as")).to_be_visible()
    assert before.evaluate(SECRET) is None


def test_a_revoked_session_ends_in_every_tab(seen: Window, tmp_path: Path) -> None:
    with serving(tmp_path, "--no-history") as served:
        sign_in(seen.page, served)
        tab = tab_of(seen.page, served)
        expect(tab.get_by_text("signed in as")).to_be_visible()
        assert andon(tmp_path, "open", "--revoke").code == 0
        for one in (seen.page, tab):
            expect(one.get_by_text("your session has ended")).to_be_visible()
