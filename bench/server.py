"""Cost of a server that samples, records and serves: `python -m bench.server`.

With one client: our own code as a share of a core, memory and its growth. With `--clients 200
--stalled 1`: how late updates and ticks are, and how memory grows.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from andon.history.rules.seeding import specimens, tick
from andon.host.machine_id import node_key
from andon.host.state.user_folder import HISTORY, NODES
from andon.stores.sqlite import SqliteStore
from bench import browser, nodes
from bench.exporter import scrape
from bench.served import Served, served
from bench.server_figures import Crowd, Look, Stay, crowd_verdicts, stay_verdicts

SCRAPE_SECONDS = 15.0
WARM_UP_SECONDS = 20.0
MEASUREMENTS = 120  # over the whole run
EARLIER_DEVICES, EARLIER_SECONDS = 8, 1200
ALONE_SECONDS = 3.0  # at least
SPARE_SECONDS = 60.0
MOST_DRIVER_SECONDS = 65.0  # the least frequent readings are taken once a minute
CLIENTS = ("browser", "socketio", "none")


def main() -> None:
    options = _options()
    place = "this machine's driver" if options.real else (
        f"{options.devices} stand-in devices, {options.processes} processes"
    )  # fmt: skip
    print(f"{place}, 1 Hz, history on disk, scraped every {SCRAPE_SECONDS:g} s; load before: "
          f"{os.getloadavg()[0]:.2f} on {os.cpu_count()} cores", flush=True)  # fmt: skip
    found = crowd(options) if options.clients else stay(options)
    print(found)
    load = f"{os.getloadavg()[0]:.2f}"
    print(f"\nload after: {load}\n\ntargets\n-------")
    verdicts = list(crowd_verdicts(found) if isinstance(found, Crowd) else stay_verdicts(found))
    print("\n".join(map(str, verdicts)))
    if options.json:
        record = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "command": " ".join(["python", "-m", "bench.server", *sys.argv[1:]]),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load_after": float(load),
            **found.to_json(),
            "targets": [{"promise": v.promise, "measured": v.measured, "reached": v.reached}
                        for v in verdicts],
        }  # fmt: skip
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def stay(options: argparse.Namespace) -> Stay:
    """One client, for the requested time."""
    seconds = 60.0 * options.minutes
    kind = options.client or ("browser" if browser.found() else "socketio")
    with _node(options) as environment:
        with _started(environment) as server, _client(kind, server.port, seconds) as words:
            time.sleep(options.warm_up)
            before = server.health()["sampler"]
            looks = tuple(_looks(server, seconds))
            after = server.health()["sampler"]
        driver = _driver(environment, min(seconds, MOST_DRIVER_SECONDS))
    ticks, missed = (after[name] - before[name] for name in ("snapshots", "missed"))
    return Stay(words, looks, ticks, missed, driver)


def crowd(options: argparse.Namespace) -> Crowd:
    """One client for a while, then all of them."""
    seconds = 60.0 * options.minutes
    with _node(options) as environment, _started(environment) as server:
        time.sleep(options.warm_up)
        quiet_seconds = max(ALONE_SECONDS, seconds / 5)
        first = _clients(environment, server.port, 1, 0, quiet_seconds)
        alone = json.loads(_answer(first, quiet_seconds))
        before = server.health()
        start = _look(server)
        many = _clients(environment, server.port, options.clients - options.stalled,
                        options.stalled, seconds)  # fmt: skip
        assert many.stdout is not None
        assert many.stdout.readline().strip() == "connected"
        looks = list(_looks(server, seconds))
        together = json.loads(_answer(many, 0.0))
        after = server.health()
    missed = after["sampler"]["missed"] - before["sampler"]["missed"]
    return Crowd(alone, together, options.stalled, start, tuple(looks), missed,
                 after["live"]["dropped"])  # fmt: skip


def _looks(server: Served, seconds: float) -> Iterator[Look]:
    begin = time.monotonic()
    yield _look(server)
    for number in range(1, MEASUREMENTS + 1):
        time.sleep(max(0.0, begin + seconds * number / MEASUREMENTS - time.monotonic()))
        yield _look(server)


def _look(server: Served) -> Look:
    return Look(time.monotonic(), server.used(), server.held())


@contextmanager
def _started(environment: nodes.Environment) -> Iterator[Served]:
    """A server with its own history on disk, scraped as Prometheus does."""
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as state:
        _remember(Path(state) / "andon" / NODES / node_key() / HISTORY)
        yield from _scraped(environment, Path(state))


def _remember(history: Path) -> None:
    """Some minutes of other devices that still need to be packed.

    A server packs every ten minutes and keeps the memory for the next time: a server that has run
    before has it from its first minute on.
    """
    devices, now = specimens(EARLIER_DEVICES), time.time()
    seconds = range(EARLIER_SECONDS, 0, -1)
    store = SqliteStore(history)
    store.write([tick(devices, now - second) for second in seconds])
    store.close()


def _scraped(environment: nodes.Environment, state: Path) -> Iterator[Served]:
    with served(environment, state) as server:
        ended = threading.Event()

        def scrapes() -> None:
            while not ended.wait(SCRAPE_SECONDS):
                scrape(server.port)

        scraping = threading.Thread(target=scrapes)
        scraping.start()
        try:
            yield server
        finally:
            ended.set()
            scraping.join()


@contextmanager
def _client(kind: str, port: int, seconds: float) -> Iterator[str]:
    """One client of a kind, until the block ends; yields its description."""
    if kind == "browser":
        with browser.looking_at(f"http://127.0.0.1:{port}/") as title:
            yield f"{Path(browser.found() or '').name} on the page ({title})"
    elif kind == "socketio":
        process = _clients(os.environ, port, 1, 0, seconds + SPARE_SECONDS)
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "connected"
            yield "Socket.IO over WebSocket, every snapshot"
        finally:
            process.kill()
            process.wait()
    else:
        yield "none"


def _driver(environment: nodes.Environment, seconds: float) -> dict[str, float]:
    print(f"… the driver's calls alone, {seconds:.0f} s", file=sys.stderr, flush=True)
    worker = _worker(environment, "bench.driver", str(seconds))
    found: dict[str, float] = json.loads(_answer(worker, seconds))
    return found


def _clients(
    environment: nodes.Environment, port: int, count: int, stalled: int, seconds: float
) -> subprocess.Popen[str]:
    numbers = (str(number) for number in (port, count, stalled, seconds))
    return _worker(environment, "bench.clients", *numbers)


def _worker(environment: nodes.Environment, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], env=environment, stdout=subprocess.PIPE, text=True
    )


def _answer(worker: subprocess.Popen[str], seconds: float) -> str:
    """Its last line of output."""
    said, _ = worker.communicate(timeout=seconds + SPARE_SECONDS)
    assert worker.returncode == 0, "a helper failed: see above"
    return said.splitlines()[-1]


def _node(options: argparse.Namespace) -> AbstractContextManager[nodes.Environment]:
    if options.real:
        return nodes.real(options.load)
    return nodes.standin(options.devices, options.processes, lively=True)


def _commit() -> str | None:
    """None outside a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"], capture_output=True, text=True,
            cwd=Path(__file__).parent, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--processes", type=int, default=40)
    parser.add_argument("--client", choices=CLIENTS, help="kind of client; a browser if installed")
    parser.add_argument("--clients", type=int, default=0, metavar="N", help="number of clients")
    parser.add_argument(
        "--stalled", type=int, default=0, metavar="N", help="how many of them read nothing"
    )
    parser.add_argument("--warm-up", type=float, default=WARM_UP_SECONDS, metavar="SECONDS")
    parser.add_argument("--real", action="store_true", help="this machine's driver")
    parser.add_argument("--load", action="store_true", help="with --real: busy, with one process")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write every measurement there"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
