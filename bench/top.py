"""What `andon top` costs: `python -m bench.top`, with nvitop beside it in the same tmux.

Both run at one sample a second on the stand-in, in windows of one tmux server. CPU is that of the
program and of every process it has started, from /proc, over the same seconds. How soon a key is
answered while the driver hangs is measured in a terminal of the bench's own.
"""

import argparse
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from bench import nodes
from bench.history import Target
from bench.tools import process_cpu_seconds, resident_bytes

CPU_PERCENT, MEMORY_MB, FIRST_SECONDS, KEY_MS = 1.5, 100.0, 0.6, 100.0
SETTLE_SECONDS = 6.0
MIB = 1 << 20


class Watched(Struct, frozen=True):
    """One program in its window."""

    name: str
    first_seconds: float
    cpu_percent: float
    memory_mib: float


class Tmux:
    """A tmux server of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._socket, self._environment = folder / "tmux", environment
        self.open("base", 20, 5, "cat")  # keeps the server while a program starts again

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, env=self._environment
        ).stdout

    def open(self, name: str, width: int, height: int, command: str) -> None:
        self("new-session", "-d", "-x", str(width), "-y", str(height), "-s", name, command)

    def screen(self, name: str) -> str:
        return self("capture-pane", "-t", name, "-p")

    def pid(self, name: str) -> int:
        return int(self("display", "-p", "-t", name, "#{pane_pid}").strip())


def main() -> None:
    options = _options()
    with (
        nodes.standin(options.devices, options.processes, lively=True) as environment,
        tempfile.TemporaryDirectory(prefix="andon-bench-") as name,
    ):
        folder = Path(name)
        environment = {
            **environment, "XDG_STATE_HOME": name, "ANDON_LEASE_DIR": str(folder / "book"),
            "PYTHONPATH": options.nvitop or "",
        }  # fmt: skip
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        tmux = Tmux(folder, environment)
        top = f"exec {sys.executable} -m andon top -i 1"
        programs = {"andon top": (top, "GPU MEM")}
        if options.nvitop or shutil.which("nvitop"):
            programs["nvitop"] = (f"exec {sys.executable} -m nvitop -m full --interval 1", "NVITOP")
        found = [
            _measured(tmux, label, options, command, sign)
            for label, (command, sign) in programs.items()
        ]
        tmux("kill-server")
    with nodes.hung_standin(options.devices) as environment:
        key_ms = _key_milliseconds(environment, options)
    for one in found:
        print(
            f"{one.name:<10} {one.cpu_percent:5.2f} % of a core, {one.memory_mib:5.1f} MiB, "
            f"first picture {one.first_seconds:.2f} s"
        )
    ours = found[0]
    print(Target("CPU with its reader, % of a core", ours.cpu_percent, CPU_PERCENT))
    print(Target("memory with its reader, MB", ours.memory_mib * MIB / 1e6, MEMORY_MB))
    print(Target("first picture, seconds", ours.first_seconds, FIRST_SECONDS))
    print(Target("a key while the driver hangs, ms (slowest of 20)", key_ms, KEY_MS))


def _measured(
    tmux: Tmux, label: str, options: argparse.Namespace, command: str, sign: str
) -> Watched:
    """The first picture is the best of several starts; the cost is that of the last one."""
    name, firsts = label.split()[0], []
    for _ in range(options.starts):
        began = time.monotonic()
        tmux.open(name, options.width, options.height, command)
        _until(lambda: sign in tmux.screen(name))
        firsts.append(time.monotonic() - began)
        if len(firsts) < options.starts:
            tmux("send-keys", "-t", name, "q")
            _until(lambda: name not in tmux("list-sessions", "-F", "#{session_name}").split())
    time.sleep(SETTLE_SECONDS)
    pid = tmux.pid(name)
    before, at = _cpu(pid), time.monotonic()
    time.sleep(options.seconds)
    spent = _cpu(pid) - before
    percent = 100 * spent / (time.monotonic() - at)
    memory = sum(map(resident_bytes, _family(pid))) / MIB
    if options.show:
        print(tmux.screen(name))
    tmux("kill-session", "-t", name)
    return Watched(label, min(firsts), percent, memory)


def _key_milliseconds(environment: Mapping[str, str], options: argparse.Namespace) -> float:
    """From a key that changes the view to the first bytes of the next picture."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", options.height, options.width, 0, 0))
    with tempfile.TemporaryDirectory(prefix="andon-bench-") as state:
        process = subprocess.Popen(
            [sys.executable, "-m", "andon", "top"], stdin=slave, stdout=slave, stderr=slave,
            env={**environment, "XDG_STATE_HOME": state, "ANDON_LEASE_DIR": f"{state}/book",
                 "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        seen = b""
        while b"has not responded" not in seen:
            seen += os.read(master, 65536)
        waits = list[float]()
        for key in (b"2", b"1") * 10:
            while select.select([master], [], [], 0.1)[0]:
                os.read(master, 65536)
            began = time.monotonic()
            os.write(master, key)
            select.select([master], [], [], 60.0)
            waits.append(time.monotonic() - began)
        process.terminate()
        with suppress(OSError):  # it has closed its terminal
            while os.read(master, 65536):
                pass
        process.wait()
    os.close(master)
    return 1000 * max(waits)


def _until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit("the program showed nothing")
        time.sleep(0.01)


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            children = (task / "children").read_text().split()
            found += [int(child) for child in children]
    return found


def _cpu(pid: int) -> float:
    return sum(map(process_cpu_seconds, _family(pid)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--processes", type=int, default=40)
    parser.add_argument("--width", type=int, default=120)
    parser.add_argument("--height", type=int, default=40)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--nvitop", default=os.environ.get("NVITOP_PATH"),
                        help="folder of pip install --target")  # fmt: skip
    parser.add_argument("--show", action="store_true", help="print each screen at the end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
