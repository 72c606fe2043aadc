"""Chromium without a screen, and everything that a page does in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.conftest import need

# The same engine without the windows, menus and services of a browser: two thirds of the CPU.
SHELL = "chromium-headless-shell"
CHROMIUM = SHELL if shutil.which(SHELL) else "chromium"
# In the whole browser, two pages of the address bar would be loaded beside each page, at twice its
# cost. The others are Playwright's own list, which this option replaces.
FEATURES = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding",
    "ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints",
    "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
)  # fmt: skip
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
    f"--disable-features={','.join(FEATURES)}",
)  # fmt: skip
PATIENCE_MS = 60_000


@dataclass
class Window:
    """One page in a profile of its own, with every URL it asked for and every complaint."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def watch(self) -> None:
        self.page.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._heard(message))

    def strangers(self, url: str) -> list[str]:
        """What was asked of anyone but this server."""
        return [asked for asked in self.requests if not asked.startswith(f"{url}/")]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The real browser; one serves any number of windows."""
    need(CHROMIUM)
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as driver:
        path = shutil.which(CHROMIUM)
        browser = driver.chromium.launch(executable_path=path, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def window(browser: Browser) -> Iterator[Window]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    opened = Window(context.new_page())
    opened.watch()
    try:
        yield opened
    finally:
        context.close()
