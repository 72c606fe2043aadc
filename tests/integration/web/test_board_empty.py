"""Every empty page of the board says whether nothing exists or nothing may be shown."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error, Page, Route, expect

from tests.integration.board import opened, show_only, sign_in
from tests.integration.serving import Served, serving

FOR_ALL = {
    "processes": "Everyone's processes are shown here, signed in or not: nobody uses a GPU now.",
    "leases": "Nobody holds a GPU now: everyone's leases are shown here, signed in or not.",
    "alerts": "Alerts are shown to everyone: none is hidden here.",
    "device/gone": "It may have been removed, or the driver no longer lists it.",
}
HIDDEN = "nothing may be shown before you sign in"
STRANGER_OF_ROOT = dict.fromkeys(("runs", "runs?state=failed", "jobs", "jobs?state=failed"), HIDDEN)
STRANGER = {
    "runs": "No runs yet", "runs?state=failed": "No runs yet",
    "jobs": "No jobs yet", "jobs?state=failed": "No jobs yet",
}  # fmt: skip
USER = {
    "runs": "You have no runs on this machine", "runs?state=failed": "You have no runs on this",
    "jobs": "You have no jobs on this machine", "jobs?state=failed": "You have no jobs on this",
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    book = str(tmp_path_factory.mktemp("x") / "book")
    with serving(
        tmp_path_factory.mktemp("home"), simulate=3,
        ANDON_LEASE_DIR=book, ANDON_SIMULATE_SCENARIO="idle",
    ) as served:  # fmt: skip
        yield served


class Lists:
    """The lists as a server of root (`shared`) or of another user gives them."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._said: dict[str, object] = {}
        for name in ("runs", "jobs"):
            page.route(f"**/api/{name}?*", self._change)

    def are(self, scope: str, shared: bool) -> None:
        self._said = {"scope": scope, "shared": shared}
        self._page.reload()

    def _change(self, route: Route) -> None:
        with suppress(Error):  # the page no longer waits for it
            answer = route.fetch()
            route.fulfill(response=answer, json={**answer.json(), **self._said})


def read(page: Page, served: Served, said: dict[str, str]) -> None:
    for name, words in said.items():
        page.goto(f"{served.url}/#/{name}")
        expect(page.get_by_role("main"), name).to_contain_text(words)


def test_an_empty_page_says_whether_nothing_exists_or_nothing_may_be_shown(
    browser: Browser, home: Served
) -> None:
    with opened(browser) as seen:
        page = seen.page
        page.goto(home.url)
        lists = Lists(page)
        lists.are("server", shared=True)
        read(page, home, FOR_ALL | STRANGER_OF_ROOT)
        lists.are("server", shared=False)
        read(page, home, STRANGER | {"runs": "who runs this server"})
        sign_in(page, home)
        lists.are("own", shared=True)
        read(page, home, FOR_ALL | USER)
        lists.are("everyone", shared=True)
        read(page, home, STRANGER | {"jobs": "everyone who signed in here, or holds or waits for"})
        assert seen.complaints == []


def test_a_search_that_finds_nothing_does_not_say_that_nothing_exists(
    browser: Browser, tmp_path: Path
) -> None:
    """And where a GPU does not respond, nobody knows who is on it."""
    with (
        serving(
            tmp_path, "--no-history", simulate=2, ANDON_LEASE_DIR=str(tmp_path / "book"),
            ANDON_SIMULATE_FAULTS="lost:0@0", ANDON_SIMULATE_SCENARIO="training",
        ) as served,
        opened(browser) as seen,
    ):  # fmt: skip
        page = seen.page
        page.goto(f"{served.url}/#/processes")
        expect(page.get_by_role("table")).to_be_visible()
        show_only(page, "nothing has this name")
        expect(page.get_by_role("heading", name="No process matches")).to_be_visible()
        expect(page.get_by_text("nobody uses")).to_have_count(0)
