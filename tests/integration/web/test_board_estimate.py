"""The form of the board that says whether a model fits."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.integration.board import violations
from tests.integration.browser import Window
from tests.integration.serving import Served, serving


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), simulate=4) as served:
        yield served


def test_the_answer_follows_what_is_typed_with_a_bar_per_gpu(home: Served, seen: Window) -> None:
    page = seen.page
    page.goto(f"{home.url}#/estimate")
    expect(page.get_by_role("heading", name="Will it fit?")).to_be_visible()
    page.get_by_role("button", name="llama-3-8b").click()
    answer = page.locator(".estimated")
    expect(answer).to_contain_text("15.0 GiB", timeout=30_000)
    expect(answer.locator(".fit-bar")).to_have_count(4)
    expect(answer).to_contain_text("andon run --gpus 1")
    page.get_by_label("tensor parallel").fill("3")
    expect(answer).to_contain_text("The nearest that work: tp 2 or tp 4", timeout=30_000)
    expect(answer.locator(".fit-bar")).to_have_count(0)
    page.get_by_label("tensor parallel").fill("")
    page.get_by_role("button", name="8 × H100").click()  # GPUs that are not here
    expect(answer.locator(".fit")).to_have_count(1)
    expect(answer).to_contain_text("8 × H100")
    assert "model=llama-3-8b" in page.url, "the address holds the question"
    assert violations(page) == []
    for typed, said in (
        ("nonsense", "does not contain a size"), ("/etc/passwd", "not a path or a URL"),
        ("{x", "not JSON"),
    ):  # fmt: skip
        page.get_by_label("model", exact=True).fill(typed)
        expect(page.locator(".notice")).to_contain_text(said, timeout=30_000)
