"""A hub of twelve nodes, for a picture of the fleet: what they report is made up, and said once."""

import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.postgres import server

from andon.fleet.rules.digest import Digest, FreeDevices, NodeTask, decoded, encoded
from andon.fleet.rules.heartbeat import deflated
from andon.fleet.rules.nodes import FleetNode, Heartbeat
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind

REPORT_SECONDS = 3.0

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
        serve = serving(state, "--store", url, simulate=None, **options)
        with serve as hub, reporting(url):
            yield hub


@contextmanager
def reporting(url: str) -> Iterator[None]:
    """Reports every few seconds: a node that does not report is shown as silent."""
    ended = threading.Event()

    def go_on() -> None:
        for number in itertools.count(1):
            _report(url, number)
            if ended.wait(REPORT_SECONDS):
                return

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _report(url: str, beat: int) -> None:
    store = PostgresKind.open_nodes(parse_store_url(url))
    now, beats = time.time(), list[Heartbeat]()
    for number in range(NODES):
        made = _digest(number)
        if beat == 1:
            store.put(FleetNode(made.node, f"{number}", now, drained=number == DRAINED))
        if number == SILENT and beat > 1:
            continue
        at = now - 240 if number == SILENT else now
        decoded(encoded(made))  # what a hub cannot read would be shown as not reported
        beats.append(Heartbeat(made.node, "s", beat, at, at, encoded(made), deflated({})))
    store.take(beats)
    store.close()


def _digest(number: int) -> Digest:
    model, memory = MODELS[number * len(MODELS) // NODES]
    count = (0, 2, 0, 1, 0, 4, 0, 0, 8, 0, 0, 3)[number]
    free = tuple(str(8 - place) for place in range(count, 0, -1))
    who = tuple(USERS[(number + place) % len(USERS)] for place in range(1 + number % 3))
    load = 0 if count == 8 else (37 * number + 61) % 100
    return Digest(
        f"gpu{number + 1:02}", f"m{number}", "0.1.0", gpus=8, models={model: 8},
        allocated=8 - count, tasks=0 if count == 8 else 1 + number % 3, reason=SICK.get(number),
        holders=tuple(NodeTask(one, "train") for one in who), users=() if count == 8 else who,
        utilization_percent=float(load), gpu_states=_states(number, count, load),
        slow=("4",) if number == 5 else (),
        memory_percent=float((23 * number + 40) % 95), idle=2 if number in (2, 6) else 0,
        free=(FreeDevices(model, free, (memory * 1000,) * count),) if count else (),
    )  # fmt: skip


def _states(number: int, free: int, load: int) -> tuple[str, ...]:
    """Returns a state for each GPU: the last ones are free, one of a sick node is broken."""
    found = list[str]()
    for place in range(8):
        state, busy = ("free", 0) if place >= 8 - free else ("held", (load + 13 * place) % 100)
        if number in (2, 6) and place < 2:
            state, busy = "idle", 0
        if number == 5 and place == 1:
            state = "used"
        if number == DRAINED and place == 7:
            state = "withheld"
        if number in SICK and place == int(SICK[number][4]):
            state = "broken" if number == 3 else "troubled"
        shown = "-" if state == "broken" else str(busy)
        found.append(f"{place} {state} {shown} {(11 * place + 40) % 100 if busy else 1}")
    return tuple(found)
