"""The built site: strict, with nothing from elsewhere, and a person finds five answers in it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dev.site.loads import loads
from playwright.sync_api import Browser, Page, expect

from tests.conftest import REPOSITORY
from tests.integration.browser import chromium

pytestmark = pytest.mark.process
QUESTIONS = {
    "lease a gpu for two hours": ("sharing", "reference/commands/lease", "which"),
    "why does my job wait": ("jobs", "clusters", "reference/commands/why"),
    "tell me in slack when a gpu is too hot": ("notifiers",),
    "does a 70b model fit": ("estimate",),
    "driver library version mismatch": ("troubleshooting",),
}
"""What a person types, and the pages of which one must be among the first three."""
FIRST = 3


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        str(folder),
    ]
    done = subprocess.run(
        build, cwd=REPOSITORY, capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(REPOSITORY), "NO_MKDOCS_2_WARNING": "1", "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    assert loads(site) == {}
    assert len(list(site.rglob("*.html"))) > 100


def test_a_person_finds_five_answers_among_the_first_hits(site: Path, browser: Browser) -> None:
    """From a folder, as a person without a server opens it."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    for question, pages in QUESTIONS.items():
        found = hits(page, question)
        shown = [one.removeprefix(site.as_uri() + "/").partition(".html")[0] for one in found]
        first = list(dict.fromkeys(shown))[:FIRST]
        assert set(first) & set(pages), f"{question}: {first}"
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    page.close()


def hits(page: Page, question: str) -> list[str]:
    """The pages that the search lists, the best first."""
    field = page.get_by_role("textbox", name="Search")
    field.click()
    field.fill("")
    page.keyboard.type(question)
    expect(page.locator(".md-search-result__meta")).to_contain_text("matching", timeout=60_000)
    links = page.locator(".md-search-result__item > .md-search-result__link")
    expect(links.first).to_be_visible()
    return [link.evaluate("one => one.href") for link in links.all()]
