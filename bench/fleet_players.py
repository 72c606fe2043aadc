"""Players of nodes that report to one hub, with bodies made before: what the hub takes.

CPU is that of the hub and of the database's processes by the kernel's count, which other work on
the machine changes little; times are by the clock, and mean something on a quiet machine.
"""

import asyncio
import hashlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace
from tests.support.snapshots import work

from andon.alerts.rules.overview import AlertOverview
from andon.fleet.link import HEARTBEAT, PAST
from andon.fleet.rules.digest import digest_of, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body, packed_ticks
from andon.fleet.rules.nodes import FleetNode
from andon.fleet.sending import PastSender
from andon.history.rules.seeding import specimens
from andon.history.rules.series import tick_of
from andon.history.rules.tiers import Retention
from andon.history.writer import Maintainer
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.model.wire import bare_snapshot
from andon.node.watched.past import ServedPast
from andon.ports import Store
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_nodes import PostgresNodeStore
from andon.stores.sqlite import SqliteStore
from andon.version import __version__
from bench.fleet_database import database
from bench.fleet_figures import FleetFigure, Tell
from bench.history import BEGIN, DEVICES, _played
from bench.tools import process_cpu_seconds

EVERY_SECONDS = 5.0
SETTLING_SECONDS = 10.0
PROCESSES = 40
OUTAGE_SECONDS = 600
AT_MOST_WAITING = 60
"""Readings that wait for a hub that is away, as in a node."""
LISTINGS = 5


class PlayedHub(Struct, frozen=True):
    """A hub in a process of its own, and the folder of its state."""

    process: "subprocess.Popen[str]"
    port: int
    state: Path

    def spent(self) -> tuple[float, float]:
        """CPU seconds of the hub, and of the database's processes."""
        pid = database().pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        own = process_cpu_seconds(self.process.pid)
        return own, sum(process_cpu_seconds(int(one)) for one in children)


class Played(Struct):
    """What the players saw; `owing` are nodes whose past the hub has not taken."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    postponed: int = 0
    owing: set[int] = field(default_factory=set)

    def share(self, share: float) -> float:
        """Returns this share's time of an acknowledgement, in milliseconds."""
        ordered = sorted(self.seconds) or [float("inf")]
        return 1000 * ordered[int(share * (len(ordered) - 1))]


class Bodies(Struct, frozen=True):
    """What every player sends, made once."""

    digests: Sequence[bytes]
    report: bytes
    ticks: bytes
    many_ticks: bytes
    """Those that waited while the hub was away."""
    past: Sequence[bytes]

    def beat(self, number: int, sequence: int, late: bool) -> bytes:
        header = HeartbeatHeader("bench", sequence, time.time())
        ticks = self.many_ticks if late else self.ticks
        return heartbeat_body(header, self.digests[number], self.report, ticks)


def live(nodes: int, seconds: float, with_board: bool, tell: Tell) -> None:
    """Plays reports, with the fleet page open in a browser; then an outage that has just ended."""
    url, bodies = database().schema("players"), made(nodes)
    tokens = added(url, nodes)
    with tempfile.TemporaryDirectory() as folder, hub(Path(folder), url) as played:
        asyncio.run(_measured(played, tokens, bodies, seconds, with_board, tell))


async def _measured(
    played: PlayedHub,
    tokens: Sequence[str],
    bodies: Bodies,
    seconds: float,
    with_board: bool,
    tell: Tell,
) -> None:
    found, over = Played(), asyncio.Event()
    playing = [
        asyncio.create_task(_player(played.port, number, token, bodies, found, over, len(tokens)))
        for number, token in enumerate(tokens)
    ]
    await asyncio.sleep(SETTLING_SECONDS)
    board = await _board(played, seconds) if with_board else None
    if board is not None:
        await asyncio.sleep(seconds / 2)  # its browser starts, and has drawn
    found.seconds.clear()
    before, began = played.spent(), time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    spent = [after - then for after, then in zip(played.spent(), before, strict=True)]
    tell(_live_figures(found, spent, took, len(tokens)))
    if board is not None:
        shown = json.loads((await board.communicate())[0])
        tell([
            FleetFigure("fleet page first drawn", shown["drawn"], "s", 1.0),
            FleetFigure("fleet page afterwards", 100 * shown["core"], "% core", 15.0),
        ])  # fmt: skip
    tell(await asyncio.to_thread(_listing, played))
    tell(await _caught_up(played, found, len(tokens)))
    over.set()
    await asyncio.gather(*playing)


def _live_figures(
    found: Played, spent: Sequence[float], took: float, nodes: int
) -> list[FleetFigure]:
    both, count = sum(spent) / took, max(1, len(found.seconds))
    each = f"{1000 * spent[0] / count:.2f} ms of the hub a report"
    split = f"hub {spent[0] / took:.3f}, database {spent[1] / took:.3f}; {each}"
    return [
        FleetFigure("acknowledged", count / took, "/s", more=f"{found.refused} refused or failed"),
        FleetFigure("acknowledged, p50", found.share(0.5), "ms"),
        FleetFigure("acknowledged, p99", found.share(0.99), "ms", 250.0),
        FleetFigure("hub and database", both, "core", 0.25, more=split),
        FleetFigure("nodes per core", nodes / both, "", least=2000.0),
    ]


async def _caught_up(played: PlayedHub, found: Played, nodes: int) -> list[FleetFigure]:
    """All nodes owe the past of an outage at once, and go on to report."""
    found.seconds.clear()
    found.owing |= set(range(nodes))
    before, began = played.spent(), time.monotonic()
    while found.owing and time.monotonic() - began < OUTAGE_SECONDS:
        await asyncio.sleep(0.1)
    took = time.monotonic() - began
    spent = sum(played.spent()) - sum(before)
    more = f"{spent:.1f} s of CPU; {found.postponed} asked to come again"
    return [
        FleetFigure("all caught up after 10 min away", took, "s", 120.0, more=more),
        FleetFigure("acknowledged meanwhile, p99", found.share(0.99), "ms", 1000.0),
    ]


async def _player(
    port: int,
    number: int,
    token: str,
    bodies: Bodies,
    found: Played,
    over: asyncio.Event,
    count: int,
) -> None:
    await asyncio.sleep(EVERY_SECONDS * number / count)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def sent(path: str, body: bytes) -> bytes:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        status, length = (await reader.readline()).split()[1], 0
        while line := (await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        await reader.readexactly(length)
        return status

    sequence, due = 0, time.monotonic()
    owed = list[bytes]()
    while not over.is_set():
        sequence += 1
        late = number in found.owing and not owed
        if late:
            owed = list(bodies.past)
        body, began = bodies.beat(number, sequence, late), time.monotonic()
        status = await sent(HEARTBEAT, body)
        found.seconds.append(time.monotonic() - began)
        found.refused += status != b"200"
        if owed:
            if await sent(PAST, owed[0]) == b"200":
                owed.pop(0)
            else:
                found.postponed += 1
            if not owed:
                found.owing.discard(number)
        due += EVERY_SECONDS
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    writer.close()


async def _board(played: PlayedHub, seconds: float) -> asyncio.subprocess.Process:
    url = f"http://127.0.0.1:{played.port}"
    words = ["-m", "bench.fleet_board", url, str(played.state), str(seconds)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=pipe, env=surroundings(played.state)
    )


def _listing(played: PlayedHub) -> list[FleetFigure]:
    """The list of all nodes as a person gets it, beside a command that asks no one."""

    def seconds(*words: str) -> float:
        began = time.monotonic()
        command = [sys.executable, "-m", "andon.cli", *words]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, env=surroundings(played.state))
        return float("inf") if done.returncode else time.monotonic() - began

    address = f"127.0.0.1:{played.port}"
    rows = [seconds("nodes", "--url", address) for _ in range(LISTINGS)]
    bare = [seconds("version") for _ in range(LISTINGS)]
    more = f"`andon version` {statistics.median(bare):.2f} s beside it"
    return [FleetFigure("andon nodes", statistics.median(rows), "s", 0.5, more=more)]


def made(nodes: int) -> Bodies:
    seconds = 2 * OUTAGE_SECONDS  # an outage ends in the middle of a window
    played = _played(specimens(DEVICES), seconds)
    last = _busy(played[-1])
    digests = []
    for number in range(nodes):
        name = f"n{number}"
        digest = digest_of(
            replace(last, node=name), LeaseList(0.0), (), {}, {}, f"m{number}", __version__
        )
        digests.append(encoded(digest))
    ticks = [tick_of(one) for one in played]
    return Bodies(
        digests,
        deflated({"snapshot": bare_snapshot(last)}),
        packed_ticks(ticks[-int(EVERY_SECONDS) :]),
        packed_ticks(ticks[-AT_MOST_WAITING:]),
        _past(played),
    )


def _busy(snapshot: Snapshot) -> Snapshot:
    each = PROCESSES // DEVICES
    devices = tuple(
        replace(one, processes=tuple(work(100 * n + p, "alice", "train.py", 10.0 * p)
                                     for p in range(each)))
        for n, one in enumerate(snapshot.devices)
    )  # fmt: skip
    return replace(snapshot, devices=devices, at=time.time())


class _Taking:
    """A link that keeps what a node would send."""

    url = hubs = "http://hub"

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def send(self, _path: str, body: bytes) -> dict[str, object]:
        self.bodies.append(body)
        return {}


def _node_with(store: Store) -> Any:
    """A node that has nothing but its history."""
    page = AlertOverview("bench", BEGIN, ())
    return SimpleNamespace(
        past=ServedPast(lambda: store),
        alerts=SimpleNamespace(page=lambda wanted: page),
        runs=SimpleNamespace(find=lambda query: ()),
    )


def _past(played: Sequence[Snapshot]) -> list[bytes]:
    """Returns what a node sends after an outage, made by its own code."""
    link, end = _Taking(), BEGIN + len(played) + 300.0
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "history.db", "bench")
        ticks, devices = [tick_of(one) for one in played], [s.device for s in played[0].devices]
        for first in range(0, len(ticks), 60):
            store.write(ticks[first : first + 60], (), devices)
        Maintainer(store, Retention()).finish(end)
        sender = PastSender(Path(folder), _node_with(store), lambda: end)
        sender(link, 0.0)  # type: ignore[arg-type]
        store.close()
    return link.bodies


def added(url: str, nodes: int) -> list[str]:
    """Returns the tokens of nodes that may report."""
    store = PostgresNodeStore(parse_store_url(url))
    tokens = [secrets.token_urlsafe(32) for _ in range(nodes)]
    for number, token in enumerate(tokens):
        hashed = hashlib.sha256(token.encode()).hexdigest()
        store.put(FleetNode(f"n{number}", hashed, time.time()))
    store.close()
    return tokens


@contextmanager
def hub(folder: Path, url: str) -> Iterator[PlayedHub]:
    words = [sys.executable, "-m", "andon.cli", "hub", "--store", url, "--port", "0", "--quiet"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=surroundings(folder))
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[1].rpartition(":")[2])
        yield PlayedHub(process, port, folder)
    finally:
        process.terminate()
        process.communicate(timeout=60)


def surroundings(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder), "ANDON_LEASE_DIR": str(folder / "book")}
