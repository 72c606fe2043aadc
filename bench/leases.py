"""What claiming costs, and what not claiming costs: `python -m bench.leases`.

Over the stand-in driver with eight idle devices; everything in one run on one machine.
"""

import argparse
import fcntl
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.lease_crowd import asked
from tests.standin import StandIn, build
from tests.standin import hung as hangs

from andon.app import load_settings, open_sampler
from andon.core.requests import request_of
from andon.engine.granter import Granter, Terms
from andon.engine.survey import Surveyor
from andon.leases.book import Book
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.units import GIB
from bench.history import Target
from bench.nodes import BUILD

CLAIMANTS = 64
RACERS, RACE_DEVICES, RACE_HOLDS = 32, 4, 5
SEEN_AFTER_SECONDS, USED_SECONDS = 0.25, 0.05


def main() -> None:
    options = _options()
    with _node() as node:
        targets = [
            *_uncontended(options.grants),
            _crowd("64 claimants of budgets: p99, s", 1.0, "--shared", "1GiB"),
            _crowd("64 claimants, one device hangs: p99, s", 3.0, "--shared", "1GiB", hung=node),
            _added(options.starts),
        ]
        line = _crowd_seconds("--hold", "0.005")
    races = [_race(name, race, options.seed) for name, race in _RACES.items()]
    print()
    for target in targets:
        print(target)
    shown = f"median {statistics.median(line):.2f} s, p99 {_p99(line):.2f} s"
    print(f"{CLAIMANTS} claimants of 8 whole devices, 5 ms each, in line: {shown}")
    for name, (doubled, holds) in zip(_RACES, races, strict=True):
        print(f"{name}: {doubled} double uses in {holds} holds of {RACERS} processes")


def _uncontended(count: int) -> list[Target]:
    """A grant less its two looks at the devices."""
    beyond, whole = [], []
    with open_sampler(load_settings({}).settings) as sampler:
        spent = [0.0]

        def look() -> Snapshot:
            began = time.perf_counter()
            try:
                return sampler.once(hasty=True)
            finally:
                spent[0] += time.perf_counter() - began

        granter = Granter(Book(), Surveyor(look))
        for _ in range(count):
            spent[0], began = 0.0, time.perf_counter()
            grant = granter.grant(request_of((1, 1)), Terms(), 0.0)
            whole.append(time.perf_counter() - began)
            beyond.append(whole[-1] - spent[0])
            grant.held.release()
    median = statistics.median
    print(f"{count} grants: median {1e3 * median(whole):.2f} ms with both looks at the devices")
    return [Target("an uncontended grant beyond the device read, ms", 1e3 * median(beyond), 5.0)]


def _crowd(promise: str, most: float, *more: str, hung: StandIn | None = None) -> Target:
    if hung is None:
        return Target(promise, _p99(_crowd_seconds(*more)), most)
    seconds = _crowd_seconds(*more, meanwhile=lambda: hung.set_faults(hangs(device=3)))
    hung.set_faults()
    return Target(promise, _p99(seconds), most)


def _crowd_seconds(*arguments: str, meanwhile: Callable[[], None] | None = None) -> list[float]:
    results = asked(CLAIMANTS, *arguments, meanwhile=meanwhile)
    lost = [result for result in results if "error" in result]
    if lost or len(results) != CLAIMANTS:
        raise SystemExit(f"{CLAIMANTS - len(results) + len(lost)} claimants were lost: {lost[:1]}")
    return [result["seconds"] for result in results]


def _added(count: int) -> Target:
    """What `andon run` adds to a command that does nothing."""
    plain = [_timed(["true"]) for _ in range(count)]
    command = [sys.executable, "-m", "andon.cli", "run", "--", "true"]
    ours = [_timed(command) for _ in range(count)]
    added = statistics.median(ours) - statistics.median(plain)
    return Target("andon run -- true adds, s", added, 0.4)


def _timed(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - began


# Looking first and using later, beside a lease. A use shows 250 ms after it began, as a CUDA
# context does. The referee is a record lock per device.


def _look_first(folder: Path, luck: random.Random) -> Callable[[], int | None]:
    """The device that nobody is seen on."""

    def choose() -> int | None:
        now = time.time()
        busy = set()
        for path in folder.glob("use-*"):
            try:
                device, since, until = path.read_text().split()
            except (OSError, ValueError):
                continue
            if float(since) + SEEN_AFTER_SECONDS <= now <= float(until):
                busy.add(int(device))
        free = [device for device in range(RACE_DEVICES) if device not in busy]
        return luck.choice(free) if free else None

    return choose


def _use(folder: Path, device: int, referee: int) -> bool:
    """Use it for a while; whether somebody else did, too."""
    since = time.time()
    until = since + SEEN_AFTER_SECONDS + USED_SECONDS
    mine = folder / f"use-{os.getpid()}"
    mine.write_text(f"{device} {since} {until}")
    doubled = False
    try:
        fcntl.lockf(referee, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, device)
    except OSError:
        doubled = True
    time.sleep(until - since)
    if not doubled:
        fcntl.lockf(referee, fcntl.LOCK_UN, 1, device)
    mine.unlink()
    return doubled


def _racing_by_looking(folder: Path, luck: random.Random, referee: int) -> int:
    doubled, choose = 0, _look_first(folder, luck)
    for _ in range(RACE_HOLDS):
        while (device := choose()) is None:
            time.sleep(0.01)
        doubled += _use(folder, device, referee)
    return doubled


def _racing_by_lease(folder: Path, luck: random.Random, referee: int) -> int:
    os.environ["ANDON_LEASE_DIR"] = str(folder / "book")
    granter = Granter(Book(), Surveyor(_four_devices, simulated=True))
    doubled = 0
    for _ in range(RACE_HOLDS):
        grant = granter.grant(request_of((1, 1)), Terms(), 600.0)
        doubled += _use(folder, grant.held.lease.shares[0].index, referee)
        grant.held.release()
    return doubled


_RACES = {"look first, use later": _racing_by_looking, "andon's leases": _racing_by_lease}


def _race(name: str, race: Callable[..., int], seed: int) -> tuple[int, int]:
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as scratch:
        folder = Path(scratch)
        (folder / "referee").touch()
        reading, writing = os.pipe()
        for number in range(RACERS):
            if os.fork() == 0:
                referee = os.open(folder / "referee", os.O_RDWR)
                doubled = race(folder, random.Random(seed * 100 + number), referee)
                os.write(writing, f"{doubled}\n".encode())
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            doubled = sum(int(line) for line in told)
        for _ in range(RACERS):
            os.wait()
    return doubled, RACERS * RACE_HOLDS


def _four_devices() -> Snapshot:
    sample = Sample(1.0, utilization_percent=0, memory_used_bytes=0, memory_free_bytes=GIB)
    devices = tuple(
        DeviceStatus(
            Device(f"SIM-{i}", i, "sim", "Race", memory_total_bytes=GIB),
            State.OK,
            0.0,
            sample=sample,
        )
        for i in range(RACE_DEVICES)
    )
    return Snapshot("race", time.time(), simulated=True, devices=devices)


@contextmanager
def _node() -> Iterator[StandIn]:
    """Eight idle devices behind the stand-in, and a book and a state folder of our own."""
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as scratch:
        folder = Path(scratch)
        node = StandIn(folder / "node", per_second=False)
        node.write(StandIn.devices(8))
        os.environ.update(node.environment(build(BUILD)))
        os.environ.update(
            ANDON_LEASE_DIR=str(folder / "book"), XDG_STATE_HOME=str(folder / "state"), HOME="/"
        )
        yield node


def _p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[int(0.99 * (len(seconds) - 1) + 0.5)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grants", type=int, default=200)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
