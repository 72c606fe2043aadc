"""What a node takes for its reports: the thread that sends them, and the bytes it sends.

The node is the stand-in driver with 8 devices and 40 processes, whose readings change every second.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import nodes
from bench.fleet_database import database
from bench.fleet_figures import FleetFigure
from bench.fleet_players import EVERY_SECONDS, PROCESSES, added, hub
from bench.history import DEVICES
from bench.served import served

WARM_UP_SECONDS = 20.0
THREAD = "uplink"
MOST_BYTES_A_SECOND, MOST_PERCENT = 2000.0, 0.1


def agent(seconds: float) -> Iterator[FleetFigure]:
    """Yields the CPU of the reporting thread beside that of the whole server."""
    url = database().schema("agent")
    (token,) = added(url, 1)
    with (
        tempfile.TemporaryDirectory() as folder,
        hub(Path(folder) / "hub", url) as played,
        nodes.standin(DEVICES, PROCESSES, lively=True) as environment,
    ):
        own = {"ANDON_HUB_TOKEN": token, "ANDON_NODE": "n0"}
        asked = ("--hub", f"http://127.0.0.1:{played.port}")
        with served({**environment, **own}, Path(folder) / "node", *asked) as node:
            time.sleep(WARM_UP_SECONDS)
            before = node.used()
            time.sleep(seconds)
            after = node.used()
        asked_of = "SELECT avg(length(snapshot) + length(ticks) + 600), count(*) FROM beat"
        ((size, count),) = database().sql(asked_of, url)
    spent = after.threads_cpu_seconds[THREAD] - before.threads_cpu_seconds[THREAD]
    whole = after.server_cpu_seconds - before.server_cpu_seconds
    rate = float(str(size)) / EVERY_SECONDS
    yield FleetFigure("heartbeat of 8 devices, 40 processes", rate, "B/s", MOST_BYTES_A_SECOND,
                      more=f"{float(str(size)):,.0f} B each, {count} taken")  # fmt: skip
    yield FleetFigure("agent beyond serve", 100 * spent / seconds, "% core", MOST_PERCENT,
                      more=f"serve as a whole {100 * whole / seconds:.2f} %")  # fmt: skip
