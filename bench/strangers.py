"""Effect of anonymous clients on authorised ones: `python -m bench.strangers`.

Anonymous clients on this machine take all they can: connections, waiting requests, live
connections, expensive queries. Meanwhile `/healthz`, a caller with the token and a few readers send
requests at short intervals, each on its own connection. The kinds of clients run one after another,
each against its own server.
"""

import argparse
import http.client
import json
import os
import platform
import resource
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from andon.drivers.sim.rules import behaviour
from andon.history.rules import seeding
from andon.history.rules.tiers import Retention
from andon.host.machine_id import node_key
from andon.host.state.user_folder import HISTORY, NODES
from andon.stores.sqlite import SqliteStore
from bench import nodes
from bench.served import Served, rollup, served

ASK_SECONDS = 0.1
ANSWER_SECONDS = 10.0
SETTLING_SECONDS = 5.0
LATEST_SECONDS = 1.0
USUAL_FILES = 1024  # the soft limit that most systems start a server with
MOST_LOG_BYTES = 1_000_000
READERS = ("/api/board", "/api/alerts", "/api/leases", "/api/devices/0/why")
OWNER = ("/healthz", "token")


class Attack(Struct, frozen=True):
    """The kind and number of clients, and how long they stay."""

    name: str
    kind: str
    count: int
    tls: bool = False
    readers: tuple[str, ...] = ()


ATTACKS = (
    Attack("silent TLS connections", "silent", 3_500, tls=True),
    Attack("plain connects in one go", "silent", 6_000),
    Attack("long polls of one live connection", "polls", 2_050),
    Attack("live handshakes", "handshakes", 1_000),
    Attack("chart queries at once", "charts", 100, readers=READERS),
)


class Answers(Struct):
    """The answers to one caller's repeated requests."""

    seconds: list[float] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)
    """Answers other than 200, by name."""

    @property
    def worst(self) -> float:
        return max(self.seconds, default=0.0)

    @property
    def p99(self) -> float:
        ordered = sorted(self.seconds)
        return ordered[int(0.99 * (len(ordered) - 1))] if ordered else 0.0


class Result(Struct, frozen=True):
    """The effect of one kind of client."""

    name: str
    count: int
    answers: dict[str, Answers]
    told: dict[str, int]
    history_gap_seconds: float
    log_bytes_a_minute: float
    rss_before: int
    rss_after: int

    @property
    def reached(self) -> bool:
        owner = [self.answers[name] for name in OWNER]
        in_time = all(one.worst <= LATEST_SECONDS and not one.others for one in owner)
        goes_on = self.history_gap_seconds <= 3.0
        return in_time and goes_on and self.log_bytes_a_minute < MOST_LOG_BYTES


def main() -> None:
    options = _options()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL_FILES, hard))
    wanted = [one for one in ATTACKS if not options.only or options.only in one.kind + one.name]
    results = [_printed(attack, _played(attack, options)) for attack in wanted]
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"load after {load}; {platform.machine()}, {os.cpu_count()} cores")
    if options.json:
        found = [to_builtins(result) for result in results]
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _played(attack: Attack, options: argparse.Namespace) -> Result:
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as name, nodes.standin(8, 8) as node:
        folder = Path(name)
        if attack.kind == "charts":
            _remember(node, folder / "andon" / NODES / node_key() / HISTORY, options.days)
        with _started(node, folder, attack.tls) as (server, log):
            return _attacked(attack, server, folder, log, options.seconds)


def _attacked(attack: Attack, server: Served, folder: Path, log: Path, seconds: float) -> Result:
    token = (folder / "andon" / "token").read_text().strip()
    time.sleep(SETTLING_SECONDS)
    rss, size = rollup(server.process.pid)[1], log.stat().st_size
    began = time.time()
    with asking(server, token, attack) as answers:
        told = _strangers(attack, server.port, seconds)
    spent = time.time() - began
    grown = (log.stat().st_size - size) / spent * 60
    time.sleep(SETTLING_SECONDS)
    gap = _gap(server, began, began + spent)
    after = rollup(server.process.pid)[1]
    return Result(attack.name, attack.count, answers, told, gap, grown, rss, after)


def _strangers(attack: Attack, port: int, seconds: float) -> dict[str, int]:
    numbers = (str(number) for number in (port, attack.count, seconds))
    command = [sys.executable, "-m", "bench.stranger_attacks", attack.kind, *numbers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=seconds + 120)
    told: dict[str, int] = json.loads(said.splitlines()[-1])
    return told


@contextmanager
def asking(server: Served, token: str, attack: Attack) -> Iterator[dict[str, Answers]]:
    """Request each path at short intervals, each from its own thread, until the block ends."""
    bearer = {"Authorization": f"Bearer {token}"}
    paths = {"/healthz": ("/healthz", {}), "token": ("/api/snapshot", bearer)}
    paths |= {path: (path, {}) for path in attack.readers}
    answers = {name: Answers() for name in paths}
    ended = threading.Event()

    def ask(name: str, path: str, headers: dict[str, str]) -> None:
        while not ended.wait(ASK_SECONDS):
            began = time.monotonic()
            outcome = _outcome(server, path, headers)
            answers[name].seconds.append(time.monotonic() - began)
            if outcome != "200":
                answers[name].others[outcome] = answers[name].others.get(outcome, 0) + 1

    threads = [threading.Thread(target=ask, args=(name, *how)) for name, how in paths.items()]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _outcome(server: Served, path: str, headers: dict[str, str]) -> str:
    try:
        return str(_get(server, path, headers)[0])
    except (OSError, http.client.HTTPException) as exc:
        return type(exc).__name__


def _get(server: Served, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = server.connection(ANSWER_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _gap(server: Served, since: float, until: float) -> float:
    """The longest time without a reading in the server's own history."""
    span = f"since={since}&until={until}&points={int(2 * (until - since)) or 1}"
    path = f"/api/devices/0/history?metric=utilization_percent&{span}"
    found: Any = json.loads(_get(server, path, {})[1])
    times: list[float] = [bucket["since"] for bucket in found["buckets"] if bucket["count"]]
    marks = [since, *times, until]
    return max(later - earlier for earlier, later in pairwise(marks))


@contextmanager
def _started(node: nodes.Environment, folder: Path, tls: bool) -> Iterator[tuple[Served, Path]]:
    log, options, context = folder / "log", list[str](), None
    if tls:
        certificate, key = _certificate(folder)
        options = ["--tls-cert", str(certificate), "--tls-key", str(key)]
        context = ssl.create_default_context(cafile=str(certificate))
    surroundings = {**node, "ANDON_LEASE_DIR": str(folder / "leases")}
    with served(surroundings, folder, *options, log=log, tls=context) as server:
        yield server, log


def _certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out",
         str(certificate)], check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def _remember(node: nodes.Environment, history: Path, days: float) -> None:
    """History of the devices, so that charts have data."""
    said = subprocess.run(
        [sys.executable, "-m", "andon.cli", "status", "--json"], env=node, check=True,
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    uuids = [one["uuid"] for one in json.loads(said)["devices"]]
    print(f"… {days:g} days of {len(uuids)} devices", file=sys.stderr, flush=True)
    devices = [
        replace(specimen, uuid=uuid)
        for specimen, uuid in zip(seeding.specimens(len(uuids)), uuids, strict=True)
    ]
    history.parent.mkdir(mode=0o700)
    store = SqliteStore(history)
    blocks = seeding.blocks(devices, time.time(), days, Retention())
    store.load([behaviour.describe(one) for one in devices], blocks)
    store.close()


def _printed(attack: Attack, result: Result) -> Result:
    print(f"\n{attack.count:,} {attack.name}: {'reached' if result.reached else 'NOT reached'}")
    for name, one in result.answers.items():
        others = f", not 200: {one.others}" if one.others else ""
        print(f"  {name:<22} {len(one.seconds):4} requests, worst {1000 * one.worst:6.0f} ms, "
              f"p99 {1000 * one.p99:6.0f} ms{others}")  # fmt: skip
    print(f"  history's gap {result.history_gap_seconds:.1f} s; "
          f"log {result.log_bytes_a_minute / 1000:.1f} kB per minute; "
          f"RSS {result.rss_before / 1e6:.0f} -> {result.rss_after / 1e6:.0f} MB")  # fmt: skip
    print(f"  the clients: {result.told}", flush=True)
    return result


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.strangers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the clients stay")
    parser.add_argument("--only", help="only kinds whose name contains this")
    parser.add_argument("--days", type=float, default=7.0, help="of history, for the charts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every answer there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
