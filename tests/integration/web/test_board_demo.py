"""The board of a demo: every page has content, and a tour of five sentences."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import REPOSITORY
from tests.integration.board import opened, tiles, violations_in_both_themes
from tests.integration.browser import Window
from tests.integration.conftest import andon
from tests.integration.demo import Demo, running_demo
from tests.integration.newcomer import MOST_STEPS, QUESTIONS, answer_to, take

PATIENCE_MS = 5000
PAGES = {
    "": "held but idle",
    "charts": "All GPUs",
    "processes": "finetune.py",
    "alerts": "has left GPU 4 idle",
    "runs": "pretrain.py",
    "jobs": "pretrain.py",
    "leases": "carol",
    "health": "What to do",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    home: Path = tmp_path_factory.mktemp("home")
    with running_demo(XDG_STATE_HOME=str(home)) as made:
        yield made


def test_a_tour_of_five_sentences_is_shown_once(reader: Window, demo: Demo) -> None:
    page = reader.page
    page.goto(demo.url)
    expect(tiles(page)).to_have_count(8)
    tour = page.get_by_role("complementary", name="a short tour")
    expect(tour).to_contain_text("1 of 5")
    assert violations_in_both_themes(tour) == []
    for number in range(2, 6):
        tour.get_by_role("button", name="Next").click()
        expect(tour).to_contain_text(f"{number} of 5")
    assert tour.get_by_role("link", name="Alerts").get_attribute("href") == "#/alerts"
    page.set_viewport_size({"width": 390, "height": 844})
    below, above = page.locator("main").bounding_box(), tour.bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] + above["height"] <= below["y"], "it covers nothing"
    page.goto(f"{demo.url}/#/jobs")
    expect(tour).to_have_count(0)
    page.goto(f"{demo.url}/#/")
    tour.get_by_role("button", name="Next").focus()
    page.keyboard.press("Escape")
    expect(tour).to_have_count(0)
    page.reload()
    expect(page.get_by_text("SIMULATED").first).to_be_visible()
    expect(tour).to_have_count(0)


@pytest.mark.long
def test_every_page_has_content_and_says_that_it_is_simulated(browser: Browser, demo: Demo) -> None:
    with opened(browser) as seen:
        for place, text in PAGES.items():
            seen.page.goto(f"{demo.url}/#/{place}")
            expect(seen.page.locator("main").get_by_text(text).first).to_be_visible()
            expect(seen.page.locator("header").get_by_text("SIMULATED")).to_be_visible()
        seen.page.goto(f"{demo.url}/#/alerts")
        handled = seen.page.locator("li.alert").filter(has_text="acknowledged by dora")
        row, mark = handled.bounding_box(), handled.locator(".handled-by").bounding_box()
        assert row is not None
        assert mark is not None
        assert row["y"] < mark["y"] < row["y"] + row["height"], "it stands in its row"


@pytest.mark.long
def test_a_newcomer_finds_ten_answers_after_at_most_two_steps_each(
    browser: Browser, demo: Demo
) -> None:
    docs = (REPOSITORY / "docs" / "board.md").read_text(encoding="utf-8")
    assert len(QUESTIONS) == 10
    with opened(browser) as seen:
        seen.page.add_init_script("localStorage.setItem('andon.tour', 'seen')")
        for question in QUESTIONS:
            assert f"| {question.asks} | {question.path} |" in docs
            assert len(question.steps) <= MOST_STEPS
            seen.page.goto(f"{demo.url}/#/")
            expect(tiles(seen.page)).to_have_count(8)
            for step in question.steps:
                take(seen.page, step)
            expect(answer_to(seen.page, question)).to_be_visible()


def test_a_view_is_shared_by_its_address(reader: Window, demo: Demo) -> None:
    page = reader.page
    page.add_init_script("localStorage.setItem('andon.tour', 'seen')")
    page.goto(f"{demo.url}/#/charts?seconds=86400")
    page.get_by_role("button", name="share this view").click()
    sheet = page.get_by_role("dialog", name="Share this view")
    expect(sheet.get_by_label("address of this view")).to_have_value(page.url)
    expect(sheet).to_contain_text("no phone reaches it")
    assert violations_in_both_themes(sheet) == []
    sheet.get_by_role("button", name="Close").click()
    expect(sheet).to_have_count(0)


def test_the_link_that_was_printed_signs_a_visitor_in(reader: Window, demo: Demo) -> None:
    reader.page.goto(f"{demo.url}/#/")
    expect(reader.page.locator("footer")).to_contain_text("andon open --url")
    reader.page.goto(demo.link)
    expect(reader.page.locator("footer")).to_contain_text("signed in as erik")


def test_a_stranger_is_not_offered_to_cancel_a_job(reader: Window, demo: Demo) -> None:
    page = reader.page
    page.goto(f"{demo.url}/#/jobs")
    expect(page.locator("main").get_by_text("pretrain.py").first).to_be_visible()
    page.locator("main tbody a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Job ")
    assert page.get_by_role("button", name="Cancel").count() == 0


def test_nobody_who_cancels_a_job_finds_a_button_that_only_says_cancel(
    browser: Browser, demo: Demo
) -> None:
    with opened(browser) as seen:
        page = seen.page
        page.goto(andon("open", "--print", "--url", demo.url).out.strip())
        page.wait_for_selector("text=signed in")
        page.goto(f"{demo.url}/#/jobs/105")
        page.get_by_role("button", name="Cancel this job").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Cancel job 105?")
        assert "Cancel" not in dialog.get_by_role("button").all_inner_texts()


def test_a_new_tab_is_signed_in_as_the_first_one(browser: Browser, demo: Demo) -> None:
    with opened(browser) as seen:
        seen.page.goto(andon("open", "--print", "--url", demo.url).out.strip())
        seen.page.wait_for_selector("text=signed in")
        with seen.page.context.expect_page() as coming:
            seen.page.get_by_role("link", name="Alerts").first.click(modifiers=["Control"])
        tab = coming.value
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        expect(tab.get_by_text("signed in")).to_be_visible(timeout=PATIENCE_MS)
