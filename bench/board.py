"""Cost of the board in a browser: `python -m bench.board [--devices 64] [--minutes 30]`."""

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
from playwright.sync_api import Browser, Page, expect
from tests.integration.board import holds, opened, tiles
from tests.integration.browser import CHROMIUM, OPTIONS, chromium
from tests.integration.serving import Served, serving

STATIC = Path(__file__).resolve().parent.parent / "src" / "andon" / "web" / "static"
MOST_BYTES = 160_000
MOST_PAINT_SECONDS = 1.0
MOST_LIVE_SECONDS = 2.0
MOST_CORE = 0.15
MOST_CHARTS_SECONDS = 0.3
CHARTED = 8
MOST_GROWTH_BYTES = 10e6  # over the second half of the run
STARTS = 5
SETTLE_SECONDS = 15.0
MIB = 1024.0**2


@dataclass
class Figures:
    """All measurements."""

    devices: int
    script_bytes: int = 0
    paint_seconds: list[float] = field(default_factory=list)
    live_seconds: list[float] = field(default_factory=list)
    chart_seconds: list[float] = field(default_factory=list)
    """From the click to the lines: a day of eight devices."""
    core_share: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)
    memory_bytes: list[tuple[float, float]] = field(default_factory=list)
    """Minutes, and the memory of all processes without file pages (see `own_bytes`)."""


def main() -> int:
    options = _options()
    found = Figures(options.devices, script_bytes())
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), simulate=options.devices) as served,
        chromium() as browser,
    ):
        for _ in range(STARTS):
            first(browser, served, found)
        charts(browser, Path(folder), found)
        browser.close()
        with alone(served.url, Path(folder) / "profile"):
            time.sleep(SETTLE_SECONDS)
            busy(found, options.seconds)
            held(found, options.minutes)
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(asdict(found), indent=1), encoding="utf-8")
    return 0


def script_bytes() -> int:
    """The JavaScript of the first page, as transferred; that of later pages is loaded after it."""
    paths = [path for path in STATIC.rglob("*.js") if not path.name.startswith("later-")]
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths)


def shown(page: Page, served: Served, devices: int) -> None:
    page.goto(served.url)
    expect(tiles(page)).to_have_count(devices)


def first(browser: Browser, served: Served, found: Figures) -> None:
    """A new profile each time: the cache is empty."""
    with opened(browser, viewport={"width": 1440, "height": 900}) as seen:
        shown(seen.page, served, found.devices)
        live = "() => performance.getEntriesByName('andon live')[0]?.startTime"
        holds(seen.page, live)
        paint = seen.page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        found.paint_seconds.append(paint / 1000)
        found.live_seconds.append(seen.page.evaluate(live) / 1000)


def charts(browser: Browser, folder: Path, found: Figures) -> None:
    """A page that is open goes to the charts of a day, each time of another reading."""
    store = str(folder / "day.db")
    seed = [sys.executable, "-m", "andon.cli", "seed", "--days", "1", "--devices", str(CHARTED)]
    subprocess.run([*seed, "--store", store, "--quiet"], check=True)
    readings = ("power_watts", "temperature_celsius", "memory_used_bytes", "utilization_percent")
    with (
        serving(folder, simulate=CHARTED, ANDON_HISTORY=store) as served,
        opened(browser, viewport={"width": 1440, "height": 900}) as seen,
    ):
        shown(seen.page, served, CHARTED)
        done = "() => performance.getEntriesByName('andon charts')[0]?.startTime"
        for metric in readings:
            seen.page.evaluate("location.hash = '#/'; performance.clearMarks('andon charts')")
            expect(tiles(seen.page)).to_have_count(CHARTED)
            place = f"#/charts?seconds=86400&metric={metric}"
            began = seen.page.evaluate(
                "place => { location.hash = place; return performance.now(); }", place
            )
            holds(seen.page, done)
            found.chart_seconds.append((seen.page.evaluate(done) - began) / 1000)


@contextmanager
def alone(url: str, profile: Path) -> Iterator[None]:
    """A browser without automation, which would cost time and memory of its own."""
    command = [CHROMIUM, "--headless=new", "--window-size=1440,900", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [*command, *OPTIONS, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def browsers() -> list[psutil.Process]:
    """All processes of the browser."""
    every = psutil.Process().children(recursive=True)
    return [one for one in every if "chrom" in one.name()]


def cpu_seconds() -> dict[str, float]:
    """CPU time since they started, by kind; read from /proc."""
    used: dict[str, float] = {}
    for process in browsers():
        words = " ".join(process.cmdline())
        kind = words.partition("--type=")[2].partition(" ")[0] or "browser"
        times = process.cpu_times()
        used[kind] = used.get(kind, 0.0) + times.user + times.system
    return used


def busy(found: Figures, seconds: float) -> None:
    before, began = cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    after, took = cpu_seconds(), time.monotonic() - began
    found.shares = {kind: (after[kind] - before.get(kind, 0.0)) / took for kind in after}
    found.core_share = sum(found.shares.values())


def held(found: Figures, minutes: float) -> None:
    """The memory of all processes, twice a minute."""
    began = time.monotonic()
    while (passed := (time.monotonic() - began) / 60) <= minutes:
        whole = sum(own_bytes(process.pid) for process in browsers())
        found.memory_bytes.append((round(passed, 2), whole))
        print(f"{passed:5.1f} min {whole / MIB:8.1f} MiB", file=sys.stderr, flush=True)
        time.sleep(30)


def own_bytes(pid: int) -> int:
    """Anonymous memory, and this process's part of the browser's shared memory.

    File pages are excluded: they become private or shared as other browsers start or end on this
    machine, which changes the sum by 70 MB.
    """
    kib = 0
    with suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                kib += int(line.split()[1])
    return 1024 * kib


def growth(memory: list[tuple[float, float]]) -> float | None:
    """Growth from the third to the last quarter; None if the run is too short."""
    if len(memory) < 8:
        return None
    quarter = len(memory) // 4
    values = [whole for _, whole in memory]
    last, third = values[-quarter:], values[-2 * quarter : -quarter]
    return statistics.median(last) - statistics.median(third)


def table(found: Figures) -> str:
    paint, live = statistics.median(found.paint_seconds), statistics.median(found.live_seconds)
    drawn = statistics.median(found.chart_seconds)
    more = growth(found.memory_bytes)
    minutes = found.memory_bytes[-1][0] if found.memory_bytes else 0.0
    kinds = ", ".join(f"{kind} {100 * share:.1f}" for kind, share in found.shares.items())
    rows = [
        (
            f"JavaScript, gzipped: {found.script_bytes / 1000:.1f} kB",
            found.script_bytes < MOST_BYTES,
        ),
        (f"first paint: {1000 * paint:.0f} ms", paint < MOST_PAINT_SECONDS),
        (f"first live value: {1000 * live:.0f} ms", live < MOST_LIVE_SECONDS),
        (f"charts of a day: {1000 * drawn:.0f} ms", drawn < MOST_CHARTS_SECONDS),
        (f"CPU: {100 * found.core_share:.1f} % of a core ({kinds})", found.core_share < MOST_CORE),
        (_memory(more, minutes), None if more is None else more < MOST_GROWTH_BYTES),
    ]
    words = {True: "reached", False: "NOT reached", None: "–"}
    head = f"{found.devices} simulated devices at 1 Hz, medians of {STARTS} starts"
    return "\n".join([head, *(f"{words[good]:<12} {text}" for text, good in rows)])


def _memory(more: float | None, minutes: float) -> str:
    if more is None:
        return f"memory: {minutes:.0f} minutes are too short; use --minutes 30"
    grown = f"{more / MIB:+.1f} MiB from the third to the last quarter"
    return f"memory over {minutes:.0f} min: {grown}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure CPU")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to measure memory")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
