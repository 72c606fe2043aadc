"""The form of the board that says whether a model fits."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.board import opened
from tests.integration.browser import Window, chromium
from tests.integration.serving import Served, serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), simulate=4) as served:
        yield served


@pytest.fixture
def seen(browser: Browser) -> Iterator[Window]:
    with opened(browser) as found:
        yield found


def test_the_form_shows_a_bar_per_gpu_and_says_what_is_wrong(home: Served, seen: Window) -> None:
    page = seen.page
    page.goto(f"{home.url}#/estimate")
    page.get_by_label("model", exact=True).fill("llama-3-8b")
    page.get_by_role("button", name="Estimate", exact=True).click()
    answer = page.locator(".estimated")
    expect(answer).to_contain_text("15.0 GiB", timeout=30_000)
    expect(answer.locator(".fit-bar")).to_have_count(4)
    expect(answer).to_contain_text("andon run --gpus 1")
    page.get_by_label("tensor parallel").fill("3")
    page.get_by_role("button", name="Estimate", exact=True).click()
    expect(answer).to_contain_text("The nearest that work: tp 2 or tp 4", timeout=30_000)
    expect(answer.locator(".fit-bar")).to_have_count(0)
    for typed, said in (
        ("nonsense", "does not contain a size"), ("/etc/passwd", "not a path or a URL"),
        ("{x", "not JSON"),
    ):  # fmt: skip
        page.get_by_label("model", exact=True).fill(typed)
        page.get_by_role("button", name="Estimate", exact=True).click()
        expect(page.locator(".notice")).to_contain_text(said, timeout=30_000)
