"""Players of nodes that report to one hub, with bodies made before: what the hub takes."""

import asyncio
import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from tests.support.postgres import server
from tests.support.snapshots import farm, work

from andon.fleet.rules.digest import digest_of, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body, packed_ticks
from andon.fleet.rules.nodes import FleetNode
from andon.history.rules.series import tick_of
from andon.model.device import Snapshot
from andon.model.lease_list import LeaseList
from andon.model.wire import snapshot_to_json
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_nodes import PostgresNodeStore
from bench.history import DEVICES
from bench.tools import process_cpu_seconds

EVERY_SECONDS = 5.0
SETTLING_SECONDS = 10.0
PROCESSES = 40


class Played(Struct):
    """What the players saw."""

    seconds: list[float] = []
    refused: int = 0


def play(nodes: int, seconds: float) -> None:
    """Prints what a hub and its database take for this many nodes."""
    url = server().schema("players")
    tokens = _added(url, nodes)
    parts = _parts()
    body = _body("n0", 1, parts)
    print(f"{nodes} nodes of {DEVICES} devices and {PROCESSES} processes, {seconds:.0f} s")
    rate = len(body) / EVERY_SECONDS
    print(f"a heartbeat                    {len(body):>10,} B  = {rate / 1000:.2f} kB/s")
    with tempfile.TemporaryDirectory() as folder:
        hub, port = _hub(Path(folder), url)
        try:
            asyncio.run(_measured(hub, port, tokens, parts, seconds, Path(folder)))
        finally:
            hub.terminate()
            hub.communicate(timeout=30)


async def _measured(
    hub: "subprocess.Popen[str]",
    port: int,
    tokens: Sequence[str],
    parts: tuple[bytes, bytes],
    seconds: float,
    folder: Path,
) -> None:
    found, over = Played(), asyncio.Event()
    playing = [
        asyncio.create_task(_player(port, number, token, parts, found, over, len(tokens)))
        for number, token in enumerate(tokens)
    ]
    await asyncio.sleep(SETTLING_SECONDS)
    found.seconds.clear()
    before = _spent(hub.pid)
    began = time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    spent = [after - then for after, then in zip(_spent(hub.pid), before, strict=True)]
    answered = sorted(found.seconds)
    listing = await asyncio.to_thread(_listing_seconds, port, folder)
    over.set()
    await asyncio.gather(*playing, return_exceptions=True)
    each = spent[0] / max(1, len(answered))
    print(f"acknowledged                   {len(answered) / took:>10.1f} a second")
    for share in (0.5, 0.99):
        ms = 1000 * answered[int(share * (len(answered) - 1))]
        print(f"  p{100 * share:<28.0f} {ms:>10.0f} ms")
    print(f"refused or failed              {found.refused:>10}")
    print(
        f"hub                            {spent[0] / took:>10.3f} core, {1000 * each:.2f} ms each"
    )
    print(f"database                       {spent[1] / took:>10.3f} core")
    both = sum(spent) / took
    print(f"nodes per core                 {len(tokens) / both:>10.0f}")
    print(f"andon nodes                    {listing:>10.2f} s")


async def _player(
    port: int,
    number: int,
    token: str,
    parts: tuple[bytes, bytes],
    found: Played,
    over: asyncio.Event,
    count: int,
) -> None:
    await asyncio.sleep(EVERY_SECONDS * number / count)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sequence, due = 0, time.monotonic()
    while not over.is_set():
        sequence += 1
        body = _body(f"n{number}", sequence, parts)
        head = (
            f"POST /api/heartbeat HTTP/1.1\r\nHost: localhost:{port}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        began = time.monotonic()
        writer.write(head.encode() + body)
        status = (await reader.readline()).split()
        length = 0
        while line := (await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        await reader.readexactly(length)
        found.seconds.append(time.monotonic() - began)
        found.refused += status[1:2] != [b"200"]
        due += EVERY_SECONDS
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    writer.close()


def _parts() -> tuple[bytes, bytes]:
    snapshot = _snapshot()
    ticks = [tick_of(replace(snapshot, at=snapshot.at + n)) for n in range(5)]
    return deflated({"snapshot": snapshot_to_json(snapshot)}), packed_ticks(ticks)


def _snapshot() -> Snapshot:
    plain = farm()
    boards = [one for one in plain.devices if one.answered][:1] * DEVICES
    devices = [
        replace(
            one,
            device=replace(one.device, uuid=f"GPU-{n}", index=n),
            processes=tuple(
                work(100 * n + p, "alice", "train.py", 10.0) for p in range(PROCESSES // DEVICES)
            ),
        )
        for n, one in enumerate(boards)
    ]
    return replace(plain, devices=tuple(devices))


def _body(name: str, sequence: int, parts: tuple[bytes, bytes]) -> bytes:
    snapshot = replace(_SNAPSHOT, node=name)
    digest = encoded(digest_of(snapshot, LeaseList(0.0), (), {}, {}, name, "bench"))
    return heartbeat_body(HeartbeatHeader("bench", sequence, time.time()), digest, *parts)


def _added(url: str, nodes: int) -> list[str]:
    store = PostgresNodeStore(parse_store_url(url))
    tokens = [secrets.token_urlsafe(32) for _ in range(nodes)]
    for number, token in enumerate(tokens):
        hashed = hashlib.sha256(token.encode()).hexdigest()
        store.put(FleetNode(f"n{number}", hashed, time.time()))
    store.close()
    return tokens


def _hub(folder: Path, url: str) -> "tuple[subprocess.Popen[str], int]":
    words = [sys.executable, "-m", "andon.cli", "hub", "--store", url, "--port", "0", "--quiet"]
    hub = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=_surroundings(folder))
    assert hub.stdout is not None
    return hub, int(hub.stdout.readline().split()[1].rpartition(":")[2])


def _surroundings(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder), "ANDON_LEASE_DIR": str(folder / "book")}


def _spent(hub: int) -> tuple[float, float]:
    """CPU seconds of the hub, and of the database's processes."""
    children = Path(f"/proc/{server().pid}/task/{server().pid}/children").read_text().split()
    return process_cpu_seconds(hub), sum(process_cpu_seconds(int(one)) for one in children)


def _listing_seconds(port: int, folder: Path) -> float:
    began = time.monotonic()
    words = [sys.executable, "-m", "andon.cli", "nodes", "--json", "--url", f"127.0.0.1:{port}"]
    done = subprocess.run(
        words, capture_output=True, text=True, check=True, env=_surroundings(folder)
    )
    assert len(json.loads(done.stdout)["nodes"]) > 1
    return time.monotonic() - began


_SNAPSHOT = _snapshot()
