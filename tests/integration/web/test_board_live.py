"""The board lives: new values by themselves, silence told as silence, a server that comes back."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.integration.board import serving_node, sign_in, tiles, uuids
from tests.integration.browser import Window
from tests.integration.parts import free_port
from tests.integration.serving import Served, serving
from tests.standin import StandIn, hung


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For the tests that leave the server as it is."""
    with serving(tmp_path_factory.mktemp("home"), simulate=4) as served:
        yield served


KEPT = """() => new Promise(done => {
  const nodes = [...document.querySelectorAll('li.tile, li.tile *')];
  const link = document.querySelector('footer .link');
  const late = () => link.textContent !== 'live' || document.querySelector('li.tile.grey') !== null;
  const lamps = () => [...document.querySelectorAll('li.tile')]
    .map(tile => `${tile.className} ${tile.querySelector('.word')?.textContent}`).join();
  const lit = lamps();
  let replaced = 0, wasLate = late();
  const seen = new MutationObserver(all => {
    wasLate ||= late();
    all.forEach(one => {
      if (one.type === 'childList')
        replaced += [...one.removedNodes].filter(n => n.nodeType === 1).length;
    });
  });
  const inside = {childList: true, subtree: true, attributes: true, characterData: true};
  seen.observe(document.querySelector('.tiles'), inside);
  seen.observe(link, inside);
  const found = () => [wasLate || lamps() !== lit, nodes.every(n => n.isConnected), replaced];
  setTimeout(() => done(found()), 4000);
})"""
LOOKS = 10


def drawn_again(page: Page) -> list[object]:
    """Whether all parts of the tiles stayed for four seconds, and how many were removed. Where the
    server had no time to read a device, or an alert began, the board says so, which is drawn: then
    it looks again."""
    for _ in range(LOOKS):
        found: list[object] = page.evaluate(KEPT)
        was_late = found.pop(0)
        if not was_late:
            return found
    pytest.fail("devices were never read in time")


def test_values_change_by_themselves_and_nothing_else_is_drawn_again(
    reader: Window, home: Served
) -> None:
    """A board does not flicker: between ticks only the values that changed are touched."""
    reader.page.goto(f"{home.url}/#/")
    expect(tiles(reader.page)).to_have_count(4)
    expect(reader.page.locator("footer .link")).to_have_text("live")
    asked = sum("/api/snapshot" in url for url in reader.requests)
    before = reader.page.locator(".tiles").inner_text()
    expect(reader.page.locator(".tiles")).not_to_have_text(before, use_inner_text=True)
    assert drawn_again(reader.page) == [True, 0]
    assert sum("/api/snapshot" in url for url in reader.requests) == asked, "pushed, not polled"
    assert reader.complaints == []


def test_it_says_that_the_server_is_away_and_goes_on_without_a_reload(
    seen: Window, tmp_path: Path
) -> None:
    port = free_port()
    with serving(tmp_path, "--no-history", simulate=1, port=port) as first:
        sign_in(seen.page, first)
        expect(tiles(seen.page)).to_have_count(1)
        seen.page.evaluate("window.thisVeryPage = true")
        first.process.send_signal(signal.SIGKILL)
        expect(seen.page.get_by_role("status")).to_contain_text("Reconnecting")
        expect(seen.page.get_by_role("status")).to_contain_text("Showing data from")
        expect(seen.page.get_by_role("heading", level=1)).to_have_text(re.compile("No data for"))
        expect(seen.page.locator("li.tile.grey")).to_have_count(1)
        expect(seen.page.locator(".group.old")).to_be_visible()
    with serving(tmp_path, "--no-history", simulate=3, port=port):
        expect(tiles(seen.page)).to_have_count(3)
        expect(seen.page.get_by_role("status")).to_be_hidden()
        expect(seen.page.locator("footer .link")).to_have_text("live")
        assert seen.page.evaluate("window.thisVeryPage") is True
        expect(seen.page.get_by_text("signed in as")).to_be_visible()  # it survived the kill


def test_a_server_that_samples_no_more_is_not_shown_as_live(reader: Window, home: Served) -> None:
    reader.page.goto(f"{home.url}/#/")
    expect(tiles(reader.page)).to_have_count(4)
    home.process.send_signal(signal.SIGSTOP)
    try:
        expect(reader.page.get_by_role("status")).to_contain_text("no new data is arriving")
        expect(reader.page.locator("footer .link")).to_have_text("stale")
    finally:
        home.process.send_signal(signal.SIGCONT)
    expect(reader.page.locator("footer .link")).to_have_text("live")


def test_a_bad_link_says_so_and_shows_what_anyone_may_see(reader: Window, home: Served) -> None:
    reader.page.goto(f"{home.url}/#code=made-up")
    expect(reader.page.get_by_text("This sign-in link no longer works")).to_be_visible()
    expect(tiles(reader.page)).to_have_count(4)
    expect(reader.page.get_by_text("read-only: run")).to_be_visible()
    assert reader.page.evaluate("sessionStorage.length") == 0


def test_a_wrong_secret_is_dropped_at_once(reader: Window, home: Served) -> None:
    reader.page.goto(f"{home.url}/healthz")
    reader.page.evaluate("sessionStorage.setItem('andon.secret', 'wrong')")
    reader.page.goto(home.url)
    expect(reader.page.get_by_text("your session has ended")).to_be_visible()
    expect(tiles(reader.page)).to_have_count(4)
    expect(reader.page.locator("footer .link")).to_have_text("live")


def test_no_gpu_is_a_page_that_teaches(seen: Window, tmp_path: Path) -> None:
    with serving_node(tmp_path, "--no-history", ANDON_ROOT=str(tmp_path)) as served:
        seen.page.goto(served.url)
        expect(seen.page.get_by_role("heading", level=1)).to_contain_text("No GPU")
        expect(seen.page.get_by_text("andon serve --simulate 8")).to_be_visible()
        expect(seen.page.get_by_text("andon doctor").first).to_be_visible()
        seen.page.goto(f"{served.url}/#/processes")
        expect(seen.page.get_by_text("No GPU processes")).to_be_visible()


def test_a_hung_device_is_grey_and_a_dead_store_leaves_the_live_values(
    seen: Window, node: StandIn, kernel: Path, tmp_path: Path
) -> None:
    (tmp_path / "history.db").mkdir()  # a folder is no database
    page = seen.page
    with serving_node(tmp_path / "state", ANDON_HISTORY=str(tmp_path / "history.db")) as served:
        page.goto(served.url)
        expect(page.locator("li.tile.green")).to_have_count(8)
        node.set_faults(hung(device=3))
        expect(page.locator("li.tile.grey")).to_have_count(1)
        expect(page.locator("li.tile.green")).to_have_count(7)
        expect(page.get_by_role("heading", level=1)).to_contain_text("GPU 3")
        expect(
            page.get_by_role("link", name=re.compile("GPU 3.*driver call stuck"))
        ).to_be_visible()
        node.set_faults()
        expect(page.locator("li.tile.green")).to_have_count(8)
        page.goto(f"{served.url}/#/device/{uuids(page)[0]}")
        expect(page.get_by_text("History cannot be read")).to_be_visible()
        expect(page.locator("canvas")).to_have_count(7)  # of an H200 without NVLink
        expect(page.get_by_role("figure", name=re.compile(r"^Utilisation.*mean"))
               ).to_be_visible()  # fmt: skip
        page.goto(f"{served.url}/#/health")
        expect(page.get_by_role("heading", level=1)).to_contain_text("History")
        expect(page.get_by_text("charts will have a gap")).to_be_visible()


def test_history_from_before_the_page_was_opened_is_drawn(reader: Window, home: Served) -> None:
    reader.page.goto(f"{home.url}/#/")
    expect(tiles(reader.page)).to_have_count(4)
    device = uuids(reader.page)[0]
    with reader.page.expect_response("**/charts?*") as answer:
        reader.page.goto(f"{home.url}/#/device/{device}")
    assert answer.value.status == 200
    assert reader.complaints == []
