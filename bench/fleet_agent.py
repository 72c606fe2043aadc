"""What a node takes for its reports, beyond what the same server takes without a hub.

The node is the stand-in driver with 8 devices and 40 processes, whose readings change every second.
Two servers watch it at once, one of which reports: the other is subtracted, window by window, with
the readers of both. A report makes and saves work of other threads, so its own thread tells less.
"""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench import nodes
from bench.fleet_database import database
from bench.fleet_figures import FleetFigure
from bench.fleet_players import EVERY_SECONDS, PROCESSES, added, hub
from bench.history import DEVICES
from bench.served import Served, served, threads_cpu_seconds

WARM_UP_SECONDS = 20.0
WINDOWS = 5
THREAD = "uplink"
MOST_BYTES_A_SECOND, MOST_PERCENT = 2000.0, 0.1


def agent(seconds: float) -> Iterator[FleetFigure]:
    """Yields the bytes and the CPU of a node's reports: the median of windows of this length."""
    url = database().schema("agent")
    (token,) = added(url, 1)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        played = stack.enter_context(hub(folder / "hub", url))
        around = stack.enter_context(nodes.standin(DEVICES, PROCESSES, lively=True))
        own = {"ANDON_HUB_TOKEN": token, "ANDON_NODE": "n0"}
        asked = ("--hub", f"http://127.0.0.1:{played.port}")
        node = stack.enter_context(served({**around, **own}, folder / "node", *asked))
        plain = stack.enter_context(served(around, folder / "plain"))
        time.sleep(WARM_UP_SECONDS)
        windows = [_window(node, plain, seconds) for _ in range(WINDOWS)]
        asked_of = "SELECT avg(length(snapshot) + length(ticks) + 600), count(*) FROM beat"
        ((size, count),) = database().sql(asked_of, url)
    rate = float(str(size)) / EVERY_SECONDS
    yield FleetFigure("heartbeat of 8 devices, 40 processes", rate, "B/s", MOST_BYTES_A_SECOND,
                      more=f"{float(str(size)):,.0f} B each, {count} taken")  # fmt: skip
    more, thread, whole = map(statistics.median, zip(*windows, strict=True))
    spread = f"{min(windows)[0]:.3f} to {max(windows)[0]:.3f}"
    yield FleetFigure("agent beyond serve", more, "% core", MOST_PERCENT,
                      more=f"{WINDOWS} windows: {spread}; its thread {thread:.3f} %, "
                      f"serve without a hub {whole:.2f} %")  # fmt: skip


def _window(node: Served, plain: Served, seconds: float) -> tuple[float, float, float]:
    """Returns what reports take beyond the other server, what their thread takes, and the other
    server, in % of a core."""
    before = [_spent(one) for one in (node, plain)]
    began = time.monotonic()
    time.sleep(seconds)
    after = [_spent(one) for one in (node, plain)]
    share = 100.0 / (time.monotonic() - began)
    (with_hub, thread), (without, _) = (
        (now[0] - then[0], now[1] - then[1]) for now, then in zip(after, before, strict=True)
    )
    return share * (with_hub - without), share * thread, share * without


def _spent(one: Served) -> tuple[float, float]:
    """Returns the CPU seconds of a server with its readers, and of its reports, as exactly as the
    kernel counts them."""
    threads = threads_cpu_seconds(one.process.pid)
    readers = sum(sum(threads_cpu_seconds(pid).values()) for pid in one.readers)
    return sum(threads.values()) + readers, threads.get(THREAD, 0.0)
