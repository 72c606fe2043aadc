"""The browser's notifications: after a click that asks for them, on every page."""

import pytest
from playwright.sync_api import expect

from tests.integration.board import sign_in, violations
from tests.integration.browser import Window
from tests.integration.serving import andon, serving
from tests.support.waiting import wait_for

STUB = """
window.shown = [];
class Stub { static permission = "default";
  static async requestPermission() { Stub.permission = "granted"; return "granted"; }
  constructor(title, more) { window.shown.push(title); } close() {} }
window.Notification = Stub;
"""
pytestmark = pytest.mark.timeout(300)


def test_a_click_asks_and_a_job_that_ends_is_told_of(
    tmp_path_factory: pytest.TempPathFactory, seen: Window
) -> None:
    state, book = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("x") / "book"
    own = {"ANDON_LEASE_DIR": str(book), "ANDON_SIMULATE_SCENARIO": "idle"}
    page = seen.page
    page.add_init_script(STUB)
    with serving(
        state, "--no-history", simulate=1,
        ANDON_LEASE_DIR=own["ANDON_LEASE_DIR"], ANDON_SIMULATE_SCENARIO="idle",
    ) as served:  # fmt: skip
        sign_in(page, served)
        page.goto(f"{served.url}/#/alerts")
        button = page.get_by_role("button", name="Notify me")
        expect(button).to_have_attribute("aria-pressed", "false")
        assert page.evaluate("Notification.permission") == "default", "nothing asks by itself"
        button.click()
        expect(page.get_by_role("button", name="Do not notify me")).to_be_visible()
        assert violations(page.get_by_role("main")) == []
        page.goto(f"{served.url}/#/")
        submitted = ("submit", "--simulate", "1", "--name", "train", "--", "sh", "-c", "sleep 1")
        for _ in range(2):  # a job of before is no news
            assert andon(state, *submitted, **own).code == 0
            assert andon(state, "jobs", "wait", "@", **own).code == 0
        ended = "window.shown.some((one) => one.startsWith('Job 2 (train) succeeded'))"
        wait_for(lambda: page.evaluate(ended), what="the notification")
        told = page.evaluate("window.shown")
    assert len(told) == len(set(told))
