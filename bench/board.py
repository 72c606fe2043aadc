"""Cost of the board in a browser, beside that of an earlier commit.

python -m bench.board [--devices 8 64] [--old COMMIT] [--minutes 30]
"""

import argparse
import gzip
import io
import json
import statistics
import subprocess
import sys
import tarfile
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

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "src" / "andon" / "web" / "static"
MOST_KB, MOST_FONT_KB = 140, 60
MOST_PAINT_MS, MOST_LIVE_MS, MOST_CHARTS_MS = 1000, 2000, 300
MOST_CORE_PERCENT = 15
OLD = "afa85645"  # the board before its own typeface, colours and demo
CHARTED = 8
MOST_GROWTH_BYTES = 10e6  # over the second half of the run
STARTS = 5
SETTLE_SECONDS = 15.0
MIB = 1024.0**2


@dataclass
class Board:
    """A board to measure: its files and its server."""

    name: str
    static: Path = STATIC
    code: str = ""  # where its Python modules are, if not here


@dataclass
class Figures:
    """All measurements of one board."""

    board: str
    script_bytes: int = 0
    font_bytes: int = 0
    paint_seconds: dict[int, list[float]] = field(default_factory=dict)
    """By the number of devices, as the next two."""
    live_seconds: dict[int, list[float]] = field(default_factory=dict)
    core_shares: dict[int, dict[str, float]] = field(default_factory=dict)
    chart_seconds: list[float] = field(default_factory=list)
    """From the click to the lines: a day of eight devices; empty of a board that does not say."""
    memory_bytes: list[tuple[float, float]] = field(default_factory=list)
    """Minutes, and the memory of all processes without file pages (see `own_bytes`)."""


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bench-board.", ignore_cleanup_errors=True) as folder:
        boards = [Board("now")]
        if options.old:
            boards.insert(0, earlier(options.old, Path(folder) / "old"))
        found = [measured(one, options, Path(folder) / one.name) for one in boards]
    print(table(found, options.devices))
    if options.json:
        told = [asdict(one) for one in found]
        options.json.write_text(json.dumps(told, indent=1), encoding="utf-8")
    return 0


def earlier(commit: str, folder: Path) -> Board:
    """The board and server of a commit, built here with the packages that are installed."""
    folder.mkdir()
    packed = subprocess.run(
        ["git", "archive", commit, "src", "frontend"], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    (folder / "frontend" / "node_modules").symlink_to(ROOT / "frontend" / "node_modules")
    vite = ROOT / "frontend" / "node_modules" / ".bin" / "vite"
    subprocess.run([vite, "build", "--logLevel", "error"], cwd=folder / "frontend", check=True)
    static = folder / "src" / "andon" / "web" / "static"
    for path in (*static.rglob("*.js"), *static.rglob("*.css")):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    return Board(commit, static, str(folder / "src"))


def measured(board: Board, options: argparse.Namespace, folder: Path) -> Figures:
    found = Figures(board.name, script_bytes(board.static), font_bytes(board.static))
    folder.mkdir(exist_ok=True)
    for devices in options.devices:
        with serving(folder / str(devices), simulate=devices, PYTHONPATH=board.code) as served:
            with chromium() as browser:
                for _ in range(STARTS):
                    first(browser, served, found, devices)
            with alone(served.url, folder / f"profile-{devices}"):
                time.sleep(SETTLE_SECONDS)
                found.core_shares[devices] = busy(options.seconds)
                if board.name == "now" and devices == options.devices[-1]:
                    held(found, options.minutes)
    if board.name == "now":
        with chromium() as browser:
            charts(browser, folder, found)
    return found


def script_bytes(static: Path) -> int:
    """The JavaScript of the first page, as transferred; that of later pages is loaded after it."""
    paths = [path for path in static.rglob("*.js") if not path.name.startswith("later-")]
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths)


def font_bytes(static: Path) -> int:
    return sum(path.stat().st_size for path in static.rglob("*.woff2"))


def shown(page: Page, served: Served, devices: int) -> None:
    page.goto(served.url)
    expect(tiles(page)).to_have_count(devices)


def first(browser: Browser, served: Served, found: Figures, devices: int) -> None:
    """A new profile each time: the cache is empty."""
    with opened(browser, viewport={"width": 1440, "height": 900}) as seen:
        shown(seen.page, served, devices)
        live = "() => performance.getEntriesByName('andon live')[0]?.startTime"
        holds(seen.page, live)
        paint = seen.page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        found.paint_seconds.setdefault(devices, []).append(paint / 1000)
        found.live_seconds.setdefault(devices, []).append(seen.page.evaluate(live) / 1000)


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
        for one in browsers():  # the command itself may be a script that waits for them
            with suppress(psutil.NoSuchProcess):
                one.terminate()
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


def busy(seconds: float) -> dict[str, float]:
    """The share of a core that each kind of process takes."""
    before, began = cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    after, took = cpu_seconds(), time.monotonic() - began
    return {kind: (after[kind] - before.get(kind, 0.0)) / took for kind in after}


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


def table(found: list[Figures], counts: list[int]) -> str:
    """A column for each board; the last one is judged."""
    rows: list[tuple[str, list[float | None], float | None, str]] = [
        ("first script, gzipped", [one.script_bytes / 1000 for one in found], MOST_KB, "kB"),
        ("font", [one.font_bytes / 1000 for one in found], MOST_FONT_KB, "kB"),
    ]
    for count in counts:
        paints = [1000 * statistics.median(one.paint_seconds[count]) for one in found]
        lives = [1000 * statistics.median(one.live_seconds[count]) for one in found]
        cores = [100 * sum(one.core_shares[count].values()) for one in found]
        rows += [
            (f"first paint, {count} GPUs", [*paints], MOST_PAINT_MS, "ms"),
            (f"first live value, {count} GPUs", [*lives], MOST_LIVE_MS, "ms"),
            (f"CPU when idle, {count} GPUs", [*cores], MOST_CORE_PERCENT, "%"),
        ]
    drawn = [
        1000 * statistics.median(one.chart_seconds) if one.chart_seconds else None for one in found
    ]
    rows.append(("a day of 8 GPUs drawn", drawn, MOST_CHARTS_MS, "ms"))
    head = f"{'':<34}" + "".join(f"{one.board:>14}" for one in found) + f"{'at most':>12}"
    lines = [head, *(_line(*row) for row in rows)]
    memory = found[-1].memory_bytes
    more = growth(memory)
    if memory:
        lines.append(_memory(more, memory[-1][0]))
    return "\n".join([*lines, f"medians of {STARTS} starts, 1 Hz"])


def _line(what: str, values: list[float | None], most: float | None, unit: str) -> str:
    cells = "".join(f"{'–' if v is None else f'{v:.1f} {unit}':>14}" for v in values)
    last = values[-1]
    good = "" if last is None or most is None or last <= most else "  NOT reached"
    return f"{what:<34}{cells}{f'{most:g} {unit}':>12}{good}"


def _memory(more: float | None, minutes: float) -> str:
    if more is None:
        return f"memory: {minutes:.0f} minutes are too short; use --minutes 30"
    grown = f"{more / MIB:+.1f} MiB from the third to the last quarter"
    return f"memory over {minutes:.0f} min: {grown}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--old", default=OLD, help="a commit to measure too; empty for none")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure CPU")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to measure memory")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
