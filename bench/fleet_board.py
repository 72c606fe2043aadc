"""The fleet page of a hub in Chromium: `python -m bench.fleet_board URL STATE SECONDS` prints when
its nodes were first drawn, and what the browser takes then. A process of its own, beside players.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser
from tests.integration.board import holds, link, opened, sign_in
from tests.integration.browser import chromium
from tests.integration.serving import Served

from bench.board import SETTLE_SECONDS, alone, busy

STARTS = 3
SEES = """
new MutationObserver((_, seeing) => {
  if (!document.querySelector("tr.node")) return;
  seeing.disconnect();
  performance.mark("andon nodes");
}).observe(document, { childList: true, subtree: true });
"""
DRAWN = "() => performance.getEntriesByName('andon nodes')[0]?.startTime"


def main() -> None:
    url, state, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    hub = Served(url, int(url.rpartition(":")[2]), state, None, "")  # type: ignore[arg-type]
    with chromium() as browser:
        drawn = [_drawn(browser, hub) for _ in range(STARTS)]
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        alone(link(hub), Path(profile)),
    ):
        time.sleep(SETTLE_SECONDS)
        core = sum(busy(seconds).values())
    print(json.dumps({"drawn": statistics.median(drawn), "core": core}))


def _drawn(browser: Browser, hub: Served) -> float:
    """A new profile each time: the cache is empty but for what signing in loads."""
    with opened(browser, viewport={"width": 1440, "height": 900}) as seen:
        sign_in(seen.page, hub)
        seen.page.goto("about:blank")
        seen.page.add_init_script(SEES)
        seen.page.goto(f"{hub.url}/#/fleet")
        holds(seen.page, DRAWN)
        return float(seen.page.evaluate(DRAWN)) / 1000


if __name__ == "__main__":
    main()
