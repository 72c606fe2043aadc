"""A browser for the tests of many modules, and a window of its own for each test that needs one."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.integration.board import USUAL_SIZE, opened, sign_in
from tests.integration.browser import Window, chromium
from tests.integration.serving import Served


class Kept:
    """The browser stays from module to module, as long as each of them begins with it. It cannot
    stay for all of them: while Playwright runs, no test can run an event loop of its own."""

    def __init__(self) -> None:
        self._ends = ExitStack()
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        if self._browser is None:
            self._browser = self._ends.enter_context(chromium())
        return self._browser

    def end(self) -> None:
        self._browser = None
        self._ends.close()


kept = Kept()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        used = getattr(nextitem, "fixturenames", ())
        if nextitem is None or (nextitem.path != item.path and "browser" not in used):
            kept.end()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """After Ctrl-C no test is torn down with the next one in sight."""
    kept.end()


@pytest.fixture(scope="module")
def browser() -> Browser:
    return kept.browser()


@pytest.fixture
def seen(browser: Browser) -> Iterator[Window]:
    with opened(browser) as found:
        yield found


@pytest.fixture(scope="module")
def readers_window(browser: Browser) -> Iterator[Window]:
    with opened(browser) as found:
        yield found


@pytest.fixture
def reader(readers_window: Window) -> Iterator[Window]:
    """One window for the tests of a module that never sign in, or sign out again: a page is loaded
    once for all of them, and each goes where it looks."""
    yield as_new(readers_window)
    rest(readers_window)


@pytest.fixture(scope="module")
def owners_window(browser: Browser, home: Served) -> Iterator[Window]:
    """One that is signed in at the server of its module."""
    with opened(browser) as found:
        sign_in(found.page, home)
        yield found


@pytest.fixture
def owner(owners_window: Window) -> Iterator[Window]:
    """The same for the tests that look at what the owner of the server sees."""
    yield as_new(owners_window)
    rest(owners_window)


def as_new(window: Window) -> Window:
    """As it was opened: nothing is pointed at, focused or played by the test before, and what that
    one complained about is not repeated."""
    window.page.unroute_all(behavior="ignoreErrors")
    window.page.set_viewport_size(USUAL_SIZE)
    window.page.mouse.move(5, 5)
    window.page.evaluate("document.activeElement?.blur()")
    window.complaints.clear()
    return window


def rest(window: Window) -> None:
    """To a page that draws nothing: a board that nobody looks at would draw every second."""
    window.page.evaluate("location.hash = '#/nowhere'")
