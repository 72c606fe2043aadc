"""A browser for the tests of a module, and a window of its own for each test."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.integration.board import opened
from tests.integration.browser import Window, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def seen(browser: Browser) -> Iterator[Window]:
    with opened(browser) as found:
        yield found
