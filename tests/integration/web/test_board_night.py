"""A wall that hangs for a night: twelve hours of readings, with a new server in the middle."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.integration.board import tiles
from tests.integration.browser import Window
from tests.integration.parts import free_port
from tests.integration.serving import serving
from tests.support.waiting import wait_for

pytestmark = pytest.mark.long

DEVICES = 2
HOURS, STEP_SECONDS = 12, 120
MOST_GROWTH_BYTES = 2_000_000
SELDOM = {"pingInterval": 86_400_000}  # a step of the page's clock is no silence
CLOCK = "new Date().toTimeString().slice(0, 5)"


class TimeLapse:
    """Plays hours to a page: what its server reads is sent again and again, each time two minutes
    later and with another utilisation, while the page's clock moves as far."""

    def __init__(self, page: Page) -> None:
        self._page, self._later, self.busy = page, 0, 0
        self._read: dict[str, Any] | None = None
        page.clock.install()
        page.route_web_socket(re.compile("/socket.io/"), self._connected)

    def _connected(self, there: WebSocketRoute) -> None:
        server = there.connect_to_server()
        self._read = None

        def told(message: str | bytes) -> None:
            if message == "2":
                server.send("3")  # the page is not asked: its clock is another
            elif isinstance(message, str) and message.startswith("0{"):
                there.send("0" + json.dumps({**json.loads(message[1:]), **SELDOM}))
            elif isinstance(message, str) and message.startswith('42["snapshot"'):
                self._there, self._read = there, json.loads(message[2:])[1]
            else:
                there.send(message)

        server.on_message(told)
        there.on_message(lambda message: None if message == "3" else server.send(message))

    def connected(self) -> None:
        """Waits for a reading of the server."""
        wait_for(lambda: self._page.evaluate("1") and self._read is not None)
        self.tick()

    def tick(self) -> None:
        assert self._read is not None
        self.busy = (self.busy + 1) % 101
        for device in self._read["devices"]:
            device["sample"]["utilization_percent"] = self.busy
        said = {**self._read, "at": self._read["at"] + self._later}
        self._there.send("42" + json.dumps(["snapshot", said]))

    def hours(self, count: float) -> None:
        for _ in range(int(count * 3600 / STEP_SECONDS)):
            self.tick()
            self.wait(STEP_SECONDS)

    def wait(self, seconds: int) -> None:
        self._later += seconds
        self._page.clock.fast_forward(1000 * seconds)


def size(page: Page) -> tuple[int, float]:
    """How many elements there are, and the page's memory after a collection."""
    devtools = page.context.new_cdp_session(page)
    devtools.send("HeapProfiler.collectGarbage")
    used = devtools.send("Runtime.getHeapUsage")["usedSize"]
    devtools.detach()
    return page.locator("*").count(), used


@pytest.mark.timeout(300)
def test_a_wall_lives_through_a_night_and_a_new_server(seen: Window, tmp_path: Path) -> None:
    page, port = seen.page, free_port()
    night = TimeLapse(page)
    link = page.locator(".wall footer .link")
    with serving(tmp_path, "--no-history", simulate=DEVICES, port=port) as first:
        page.goto(f"{first.url}/#/wall")
        night.connected()
        expect(tiles(page)).to_have_count(DEVICES)
        began = page.evaluate("Date.now()")
        night.hours(HOURS / 4)  # until every ring is full
        before = size(page)
        night.hours(HOURS / 4)
        expect(link).to_have_text("live")
        page.evaluate("window.thisVeryPage = true")
        first.process.send_signal(signal.SIGKILL)
        expect(link).to_have_text(re.compile("reconnecting|stale"))
        night.wait(600)
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("No data for"))
    with serving(tmp_path, "--no-history", simulate=DEVICES, port=port):
        night.connected()
        night.hours(HOURS / 2)
        expect(link).to_have_text("live")
        night.tick()
        expect(tiles(page).first.locator(".busy")).to_have_text(f"{night.busy}\u00a0%")
        expect(page.locator(".wall .clock b")).to_have_text(page.evaluate(CLOCK))
        after = size(page)
    assert page.evaluate("Date.now()") - began > HOURS * 3_600_000
    assert page.evaluate("window.thisVeryPage") is True, "without a reload"
    assert after[0] == before[0]
    assert after[1] < before[1] + MOST_GROWTH_BYTES, (before, after)
