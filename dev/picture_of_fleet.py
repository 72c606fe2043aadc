"""A hub of twelve nodes, for a picture of the fleet: what they report is made up, and said once."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.postgres import server

from andon.fleet.rules.digest import Digest, FreeDevices, encoded
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind

LATER = 3600.0
"""Reports of this many seconds ahead stay new while the pictures are taken."""

MODELS = (("H200", 141), ("H100 80GB HBM3", 80), ("A100-SXM4-40GB", 40))
USERS = ("alice", "bob", "carol", "dora", "erik")
SICK = {3: "GPU 5: fell off the bus", 7: "GPU 2: too hot (91 °C, slows down at 89 °C)"}
SILENT, DRAINED, NODES = 10, 4, 12


@contextmanager
def playing_fleet() -> Iterator[Served]:
    url = server().schema("fleet_pictures")
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        book = own_folders(state)["ANDON_LEASE_DIR"]
        options = {"ANDON_LEASE_DIR": book, "ANDON_NODE": "hub"}
        with serving(state, "--store", url, simulate=None, **options) as hub:
            _report(url)
            yield hub


def _report(url: str) -> None:
    store = PostgresKind.open_nodes(parse_store_url(url))
    now, beats = time.time(), list[Heartbeat]()
    for number in range(NODES):
        made = _digest(number)
        store.put(FleetNode(made.node, f"{number}", now, drained=number == DRAINED))
        at = now - 240 if number == SILENT else now + LATER
        beats.append(Heartbeat(made.node, "s", 1, at, at, encoded(made), deflated({})))
    store.take(beats)
    store.close()


def _digest(number: int) -> Digest:
    model, memory = MODELS[number * len(MODELS) // NODES]
    count = (0, 2, 0, 1, 0, 4, 0, 0, 8, 0, 0, 3)[number]
    free = tuple(str(8 - place) for place in range(count, 0, -1))
    who = tuple(USERS[(number + place) % len(USERS)] for place in range(1 + number % 3))
    return Digest(
        f"gpu{number + 1:02}", f"m{number}", "0.1.0", gpus=8, models={model: 8},
        allocated=8 - count, tasks=0 if count == 8 else 1 + number % 3, reason=SICK.get(number),
        holders=tuple(f"{one}'s job" for one in who), users=() if count == 8 else who,
        utilization_percent=float(0 if count == 8 else (37 * number + 61) % 100),
        memory_percent=float((23 * number + 40) % 95), idle=2 if number in (2, 6) else 0,
        free=(FreeDevices(model, free, (memory * 1000,) * count),) if count else (),
    )  # fmt: skip
