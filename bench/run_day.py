"""How fast a long run opens: `python -m bench.run_day` writes a day of 8 devices and looks at it.

Prints how long the server takes to answer for it, and, in Chromium, how long it takes from a click
in the list of runs to its charts.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, expect
from tests.integration.browser import chromium
from tests.integration.serving import Served, serving

from andon.model.run.record import (
    RunBegin,
    RunDevice,
    RunEnd,
    RunKind,
    RunLine,
    RunSample,
    RunState,
)
from andon.model.run.wire import line_to_text
from andon.runs.rules.fold import RunFold
from andon.units import GIB
from bench.history import Target

RUN, NAME = "daydaday", "a-day.py"
MOST_SECONDS = 1.0
ROUNDS = 5
DEVICES = tuple(RunDevice(f"GPU-{n}", n, str(n), "NVIDIA H200", 150 * GIB, 700.0) for n in range(8))


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        path = state / "andon" / "runs" / f"{NAME}_day.jsonl"
        path.parent.mkdir(parents=True, mode=0o700)
        path.parent.parent.chmod(0o700)
        written = _write(path, options.hours * 3600)
        size = path.stat().st_size / 1e6
        print(f"{options.hours} h, {len(DEVICES)} devices, {written} samples, {size:.0f} MB")
        with serving(state, "--no-history", simulate=1) as server:
            asked = statistics.median(_asked(server) for _ in range(options.rounds))
            with chromium() as browser:
                page = browser.new_page()
                shown = statistics.median(_clicked(page, server) for _ in range(options.rounds))
    targets = (
        Target("REST, seconds", asked, MOST_SECONDS),
        Target("from a click to the charts, seconds", shown, MOST_SECONDS),
    )
    for target in targets:
        print(target)
    return int(max(asked, shown) > MOST_SECONDS)


def _asked(server: Served) -> float:
    began = time.monotonic()
    answer = server.ask(f"/api/runs/{RUN}")
    assert answer.status == 200, answer.body
    return time.monotonic() - began


def _clicked(page: Page, server: Served) -> float:
    page.goto(f"{server.url}/#/runs")
    link = page.locator("tr", has_text=RUN).get_by_role("link").first
    expect(link).to_be_visible()
    began = time.monotonic()
    link.click()
    expect(page.locator("figure.chart").nth(3)).to_be_visible()
    return time.monotonic() - began


def _write(path: Path, seconds: int) -> int:
    """A record at 1 Hz, which is more than a run of a day writes."""
    began = time.time() - seconds
    first = RunBegin(began, RUN, NAME, RunKind.COMMAND, "node-1", "ada", 4242, "boot", 1.0, DEVICES)
    fold = RunFold()
    with path.open("w", encoding="utf-8") as file:

        def put(line: RunLine) -> None:
            fold.add_all([line])
            file.write(line_to_text(line))

        put(first)
        for second in range(seconds):
            put(_sample(began, second))
        tallies = fold.tallies
        assert tallies is not None
        put(
            RunEnd(
                began + seconds, RunState.SUCCEEDED, float(seconds), fold.samples,
                dict(fold.summary()), exit_code=0, series=tallies.series(),
            )
        )  # fmt: skip
    return seconds


def _sample(began: float, second: int) -> RunSample:
    busy = round(60 + 30 * math.sin(second / 400))
    readings = {
        "state": "ok", "utilization_percent": busy, "memory_used_bytes": 90 * GIB,
        "temperature_celsius": 40 + busy // 3, "power_watts": 110.0 + 5 * busy,
        "power_limit_watts": 700.0, "sm_clock_mhz": 1980, "throttle": [],
    }  # fmt: skip
    return RunSample(began + second, {device.uuid: readings for device in DEVICES}, 12.0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
