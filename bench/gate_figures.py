"""What `bench.gate` measures, through the command line alone: it is the same in every version."""

import fcntl
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

from msgspec import Struct

START = "from andon.cli.entry import main; main()"
WARM_UP_SECONDS = 4.0
MEASURED_SECONDS = 8.0
PORT = 26399
MANY_JOBS = 10_000
ITEMS = 200
NEVER = "2099-01-01T00:00"
MIB = 1 << 20

REAPER = """
import ctypes, os, resource, signal, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # adopts what the command leaves behind, as its reader
done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, capture_output=True)
if done.returncode:
    sys.exit(done.stderr.decode() or "failed")
end = time.monotonic() + 2
try:
    while True:
        while os.waitpid(-1, os.WNOHANG) == (0, 0):
            time.sleep(0.02)
            if time.monotonic() > end:  # such as a dispatcher, which stays
                for pid in open("/proc/self/task/%d/children" % os.getpid()).read().split():
                    os.kill(int(pid), signal.SIGTERM)
                end += 60
except ChildProcessError:
    pass
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""

Measure = Callable[[], float]


class Version(Struct, frozen=True):
    """One version of andon with a home of its own, on the node of both."""

    tree: Path
    home: Path
    book: Path
    node: Mapping[str, str]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", START, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **self.node,
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "ANDON_LEASE_DIR": str(self.book),
            "PYTHONPATH": str(self.tree / "src"),
        }


class Figure(Struct, frozen=True):
    """How one number is measured; `prepare` returns what is called in each round."""

    unit: str
    prepare: Callable[[Version], Measure]
    devices: int = 8
    processes: int = 5


def _cpu_of(*arguments: str) -> Callable[[Version], Measure]:
    """The CPU of a command and everything it started, in milliseconds."""

    def prepare(version: Version) -> Measure:
        return lambda: _cpu(version, version.command(*arguments))

    return prepare


def _cpu(version: Version, command: list[str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", REAPER, *command],
        env=version.environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{version.tree}: {' '.join(command[3:])}: {done.stderr.strip()}")
    return float(done.stdout) * 1000


def _jobs(version: Version) -> Measure:
    _cpu(
        version, version.command("submit", "--begin", NEVER, f"--array=1-{MANY_JOBS}", "--", "true")
    )
    return _cpu_of("jobs")(version)


def _map_item(version: Version) -> Measure:
    items = version.home / "items"
    items.write_text("".join(f"{number}\n" for number in range(ITEMS)))
    many = version.command("map", "--items", str(items), "--", "true")
    return lambda: _cpu(version, many) / ITEMS


def _tick(version: Version) -> Measure:
    def measure() -> float:
        with _running(version, "watch", "-i", "1s", "--format", "jsonl") as tree:
            return _steady_cpu(tree) / MEASURED_SECONDS * 1000

    return measure


def _serve(version: Version) -> Measure:
    def measure() -> float:
        with _running(version, "serve", "--port", str(PORT)) as tree:
            _wait_for_port()
            _wait_for_readings()
            return _steady_cpu(tree) / MEASURED_SECONDS * 100

    return measure


def _wait_for_port() -> None:
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", PORT)):
            return
        time.sleep(0.1)


def _wait_for_readings() -> None:
    """A server listens before it has imported everything that it uses."""
    while True:
        with (
            suppress(OSError),
            urlopen(f"http://127.0.0.1:{PORT}/api/snapshot", timeout=5) as answer,
        ):
            if answer.status == 200:
                return
        time.sleep(0.1)


def _serve_memory(version: Version) -> Measure:
    def measure() -> float:
        with _running(version, "serve", "--port", str(PORT)) as tree:
            _wait_for_port()
            _wait_for_readings()
            time.sleep(WARM_UP_SECONDS)
            return sum(map(_resident_bytes, _pids(tree))) / MIB

    return measure


def _steady_cpu(tree: int) -> float:
    time.sleep(WARM_UP_SECONDS)
    before = sum(map(_cpu_seconds, _pids(tree)))
    time.sleep(MEASURED_SECONDS)
    return sum(map(_cpu_seconds, _pids(tree))) - before


def _top(version: Version) -> Measure:
    def measure() -> float:
        with _in_terminal(version, "top") as (pid, screen):
            _read_for(screen, WARM_UP_SECONDS)
            before = sum(map(_cpu_seconds, _pids(pid)))
            _read_for(screen, MEASURED_SECONDS)
            return (sum(map(_cpu_seconds, _pids(pid))) - before) / MEASURED_SECONDS * 100

    return measure


def _top_picture(version: Version) -> Measure:
    def measure() -> float:
        began = time.perf_counter()
        with _in_terminal(version, "top") as (_, screen):
            seen = b""
            while not re.search(rb"\d+ ?W", seen):
                seen += _read(screen, 30.0)
            return (time.perf_counter() - began) * 1000

    return measure


@contextmanager
def _running(version: Version, *arguments: str) -> Iterator[int]:
    process = subprocess.Popen(
        version.command(*arguments), env=version.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process.pid
        if process.poll() is not None:
            raise SystemExit(f"{version.tree}: {arguments[0]} ended with {process.returncode}")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _in_terminal(version: Version, *arguments: str) -> Iterator[tuple[int, int]]:
    screen, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        version.command(*arguments), env={**version.environment, "TERM": "xterm-256color"},
        stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
    )  # fmt: skip
    os.close(inner)
    try:
        yield process.pid, screen
    finally:
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            _read(screen, 0.1)  # a full terminal would keep it from ending
        os.close(screen)


def _read_for(screen: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _read(screen, left)


def _read(screen: int, seconds: float) -> bytes:
    with suppress(OSError):  # EIO: the other side has ended
        if select.select([screen], [], [], seconds)[0]:
            return os.read(screen, 65536)
    return b""


def _pids(root: int) -> list[int]:
    """The process and all its descendants."""
    found = [root]
    for pid in found:
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def _cpu_seconds(pid: int) -> float:
    total = 0
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def _resident_bytes(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


FIGURES = {
    "help": Figure("ms CPU", _cpu_of("--help")),
    "status": Figure("ms CPU", _cpu_of("status")),
    "free": Figure("ms CPU", _cpu_of("free"), processes=0),
    "alerts": Figure("ms CPU", _cpu_of("alerts")),
    "run": Figure("ms CPU", _cpu_of("run", "--gpus", "1", "--", "true"), processes=0),
    "submit": Figure("ms CPU", _cpu_of("submit", "--begin", NEVER, "--", "true")),
    "jobs": Figure("ms CPU", _jobs),
    "map_item": Figure("ms CPU", _map_item, processes=0),
    "tick_1": Figure("ms CPU", _tick, devices=1),
    "tick_8": Figure("ms CPU", _tick),
    "tick_64": Figure("ms CPU", _tick, devices=64, processes=40),
    "serve": Figure("% core", _serve),
    "serve_memory": Figure("MiB", _serve_memory),
    "top": Figure("% core", _top),
    "top_picture": Figure("ms wall", _top_picture),
}
