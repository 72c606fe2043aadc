"""Cost of leases, and of going without: `python -m bench.leases`.

Over the stand-in driver with eight idle devices; everything in one run on one machine.
"""

import argparse
import ctypes
import fcntl
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.integration.lease_crowd import asked
from tests.standin import StandIn, build
from tests.standin import hung as hangs

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.rules.requests import RequestOptions
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.units import GIB
from bench.history import Target
from bench.nodes import BUILD

CLAIMANTS = 64
PR_SET_CHILD_SUBREAPER = 36
OTHER_UID = 30_001
RACERS, RACE_DEVICES, RACE_HOLDS = 32, 4, 5
SEEN_AFTER_SECONDS, USED_SECONDS = 0.25, 0.05


def main() -> None:
    options = _options()
    print(f"load {os.getloadavg()[0]:.1f} before, {os.cpu_count()} cores")
    with _node() as node:
        parts: dict[str, Callable[[], list[Target]]] = {
            "grants": lambda: _uncontended(options.grants, options.reserved),
            "crowds": lambda: _crowds(node, options.crowds),
            "starts": lambda: _added(options.starts, options.beside),
        }
        wanted = [name for name in parts if options.only in (None, name)]
        targets = [target for name in wanted for target in parts[name]()]
    print()
    for target in targets:
        print(target)
    if options.only in (None, "races"):
        for name, race in _RACES.items():
            doubled, holds = _race(race, options.seed)
            print(f"{name}: {doubled} double uses in {holds} holds of {RACERS} processes")
    print(f"load {os.getloadavg()[0]:.1f} after")


def _uncontended(count: int, reserved: int) -> list[Target]:
    """A grant without its two samples of the devices, beside so many reservations of others."""
    beyond, whole, own = [], [], []
    with open_sampler(load_settings({}).settings) as sampler:
        spent = [0.0, 0.0]

        def look() -> Snapshot:
            began, used = time.perf_counter(), time.thread_time()
            try:
                return sampler.once(with_host=False)
            finally:
                spent[0] += time.perf_counter() - began
                spent[1] += time.thread_time() - used

        _reserve(reserved, look)
        granter = Granter(Book(), Availability(look))
        for _ in range(count):
            spent[:] = 0.0, 0.0
            began, used = time.perf_counter(), time.thread_time()
            grant = granter.grant(RequestOptions().request(), LeaseTerms(), 0.0)
            whole.append(time.perf_counter() - began)
            beyond.append(whole[-1] - spent[0])
            own.append(time.thread_time() - used - spent[1])
            grant.held.release()
    median = statistics.median
    print(
        f"{count} grants beside {reserved} reservations: median {1e3 * median(whole):.2f} ms with "
        f"both samples; {1e3 * median(own):.3f} ms of CPU without"
    )
    return [Target("an uncontended grant beyond the device read, ms", 1e3 * median(beyond), 5.0)]


def _reserve(count: int, look: Callable[[], Snapshot]) -> None:
    """Reserves half of the devices for hours to come, for another user if root measures."""
    for number in range(count):
        from andon.leases.reserving import reserve  # a commit from before has none

        begins = time.time() + 3600 * (1 + 2 * number)
        request = RequestOptions(1, devices=[str(number % 4)]).request()
        reserve(Availability(look), Book(), request, [(begins, begins + 3600)])
    if os.geteuid() == 0:
        for file in Path(os.environ["ANDON_LEASE_DIR"]).glob("reservations/*"):
            os.chown(file, OTHER_UID, -1)


def _crowds(node: StandIn, count: int) -> list[Target]:
    """Each claimant and its reader have started and sampled once before the clock starts: only the
    grant is timed, from the request until the lease is held and the devices were sampled again."""
    budget = ("--shared", "1GiB")
    healthy = [_crowd("parts of healthy devices", *budget) for _ in range(count)]
    hanging = [_crowd("while one device hangs", *budget, hung=node) for _ in range(count)]
    _crowd("8 whole devices in turn, 5 ms each", "--hold", "0.005")
    return [
        Target("64 claimants of budgets: p99, s", statistics.median(healthy), 1.0),
        Target("64 claimants, one device hangs: p99, s", statistics.median(hanging), 3.0),
    ]


def _crowd(name: str, *arguments: str, hung: StandIn | None = None) -> float:
    """The p99 of one crowd; no claimant may be lost."""
    if hung is None:
        results = asked(CLAIMANTS, *arguments)
    else:
        results = asked(CLAIMANTS, *arguments, meanwhile=lambda: hung.set_faults(hangs(device=3)))
        hung.set_faults()
    lost = [result for result in results if "error" in result]
    if lost or len(results) != CLAIMANTS:
        raise SystemExit(f"{CLAIMANTS - len(results) + len(lost)} claimants were lost: {lost[:1]}")
    seconds = [result["seconds"] for result in results]
    own = sum(result["cpu_seconds"] for result in results)
    shown = f"median {statistics.median(seconds):.2f}, p99 {_p99(seconds):.2f} s"
    print(f"{CLAIMANTS} claimants, {name}: {shown}; their own CPU {own:.2f} s")
    return _p99(seconds)


def _added(count: int, beside: str | None) -> list[Target]:
    """What `andon run` adds to a command that does nothing, compared with `true` in turn."""
    _adopt_orphans()
    pythons = [sys.executable, *([beside] if beside else [])]
    timed: dict[str, list[tuple[float, float]]] = {}
    for _ in range(count + 1):
        timed.setdefault("true", []).append(_timed(["true"]))
        for python in pythons:
            command = [python, "-m", "andon.cli", "run", "--", "true"]
            timed.setdefault(python, []).append(_timed(command))
    wall, cpu = (
        {name: statistics.median(t[place] for t in each[1:]) for name, each in timed.items()}
        for place in (0, 1)
    )
    for python in pythons:
        added = f"{1e3 * (wall[python] - wall['true']):.0f} ms"
        print(f"{python} -m andon.cli run -- true: adds {added}; CPU {1e3 * cpu[python]:.0f} ms")
    return [Target("andon run -- true adds, s", wall[sys.executable] - wall["true"], 0.4)]


def _timed(command: Sequence[str]) -> tuple[float, float]:
    """Wall time until it has ended, and the CPU time of everything it started."""
    used, began = _children_cpu(), time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - began
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return seconds, _children_cpu() - used


def _adopt_orphans() -> None:
    """Adopt processes that a command leaves behind, so that their CPU time is counted."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Check first and use later, compared with a lease. A use is visible 250 ms after it began, like a
# CUDA context. The referee is a record lock per device.


def _look_first(folder: Path, luck: random.Random) -> Callable[[], int | None]:
    """A device without visible users."""

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
    """Use it for a while; returns whether another process did too."""
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
    granter = Granter(Book(), Availability(_four_devices, simulated=True))
    doubled = 0
    for _ in range(RACE_HOLDS):
        grant = granter.grant(RequestOptions().request(), LeaseTerms(), 600.0)
        doubled += _use(folder, grant.held.lease.shares[0].index, referee)
        grant.held.release()
    return doubled


_RACES = {"check first, use later": _racing_by_looking, "andon's leases": _racing_by_lease}


def _race(race: Callable[..., int], seed: int) -> tuple[int, int]:
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
    """Eight idle stand-in devices, with a separate book and state folder."""
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
    parser.add_argument("--reserved", type=int, default=0, help="reservations beside the grants")
    parser.add_argument("--crowds", type=int, default=3, help="of each kind; the median is used")
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument(
        "--beside", metavar="PYTHON", help="also measure another environment, in turn"
    )
    parser.add_argument("--only", choices=["grants", "crowds", "starts", "races"])
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
