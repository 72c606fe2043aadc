"""andon's queue and gflow's, side by side on the same stand-in driver: see `bench.job_queue`.

Each has its own home, state and folder in a temporary directory; gflow also its own tmux server and
a free port. What is compared is what a person sees: how long a submission takes, how many jobs
start a second, whether a GPU that a process without a lease uses is handed out, and what is left of
the queue after kill -9 of the process that keeps it.
"""

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tests.standin import StandIn, StandInProcess, build

GFLOW = ("gbatch", "gqueue", "gflowd", "gcancel")
DEVICES = 8
PATIENCE_SECONDS = 90.0
SQUAT_SECONDS = 6.0  # gflow looks at processes every second here, by its settings
KILLED_JOBS = 10
SUBMITS = 5


class Contender(Protocol):
    """One queue, as a person uses it."""

    name: str

    def submit(self, command: str, count: int = 1) -> None:
        """Queue a shell command that needs one GPU, or an array of such jobs."""

    def kill(self) -> None:
        """kill -9 of the process that keeps the queue."""

    def revive(self) -> None:
        """What its documentation says to do after that."""

    def close(self) -> None: ...


class Andon:
    """`andon submit`; its dispatcher starts by itself."""

    name = "andon"

    def __init__(self, place: Path, env: Mapping[str, str]) -> None:
        state = {"XDG_STATE_HOME": str(place / "state"), "ANDON_LEASE_DIR": str(place / "book")}
        (place / "home").mkdir()
        self._env = {**env, **state, "HOME": str(place / "home"), "ANDON_JOBS_IDLE": "2s"}
        self._env.pop("ANDON_SIMULATE_SCENARIO", None)
        self._lock = place / "state"

    def submit(self, command: str, count: int = 1) -> None:
        array = ("--array", f"1-{count}") if count > 1 else ()
        self._andon("submit", *array, "--", "sh", "-c", command)

    def kill(self) -> None:
        for lock in self._lock.glob("andon/nodes/*/jobs/lock"):
            os.kill(json.loads(lock.read_text())["pid"], signal.SIGKILL)

    def revive(self) -> None:
        self._andon("jobs")

    def close(self) -> None:
        """Its dispatcher ends by itself."""

    def _andon(self, *words: str) -> None:
        argv = [sys.executable, "-m", "andon", *words]
        subprocess.run(argv, env=self._env, check=True, capture_output=True)


class Gflow:
    """`gbatch`, with a daemon that was started by hand."""

    name = "gflow"

    def __init__(self, place: Path, env: Mapping[str, str]) -> None:
        self._place, self._scripts = place, 0
        (place / "tmux").mkdir()
        kept = {name: text for name, text in env.items() if not name.startswith(("XDG_", "TMUX"))}
        self._env = {**kept, "HOME": str(place), "TMUX_TMPDIR": str(place / "tmux")}
        # A job runs in a login shell, which must find gcancel: else it stays "running".
        folder = Path(shutil.which("gcancel") or "/").parent
        for name in (".profile", ".bash_profile", ".bashrc"):
            (place / name).write_text(f'export PATH="{folder}:$PATH"\n')
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self._call("gflowd", "init", "--yes", "--port", port, "--gpu-poll-interval-secs", "1")
        self._daemon = self._start()

    def submit(self, command: str, count: int = 1) -> None:
        """As a script: it quotes the words of a command, so `>>` would be one of them."""
        self._scripts += 1
        script = self._place / f"job-{self._scripts}.sh"
        script.write_text(f"#!/bin/bash\n{command}\n")
        script.chmod(0o755)
        array = ("--array", f"1-{count}") if count > 1 else ()
        self._call("gbatch", "-g", "1", *array, str(script))

    def kill(self) -> None:
        self._daemon.kill()
        self._daemon.wait()

    def revive(self) -> None:
        self._daemon = self._start()

    def close(self) -> None:
        self.kill()
        subprocess.run(["tmux", "kill-server"], env=self._env, capture_output=True)

    def _start(self) -> "subprocess.Popen[bytes]":
        quiet = subprocess.DEVNULL
        daemon = subprocess.Popen(["gflowd"], env=self._env, stdout=quiet, stderr=quiet)
        end = time.monotonic() + PATIENCE_SECONDS
        while subprocess.run(["gqueue"], env=self._env, capture_output=True).returncode:
            if time.monotonic() > end:
                raise TimeoutError("gflowd does not answer")
            time.sleep(0.2)
        return daemon

    def _call(self, *argv: str) -> None:
        subprocess.run(argv, env=self._env, check=True, capture_output=True)


def beside_gflow(folder: Path, count: int) -> None:
    """Prints the comparison, or why there is none."""
    missing = [name for name in (*GFLOW, "tmux") if shutil.which(name) is None]
    if missing:
        print(f"gflow is not installed ({', '.join(missing)} not on PATH): no comparison")
        return
    rows = [_column(Andon, folder / "andon", count), _column(Gflow, folder / "gflow", count)]
    print(f"beside gflow, {DEVICES} devices of the stand-in driver, one run:")
    for label in rows[0]:
        print(f"  {label:<48}" + "".join(f"{row.get(label, '-'):>24}" for row in rows))


def _column(
    kind: Callable[[Path, Mapping[str, str]], Contender], place: Path, count: int
) -> dict[str, str]:
    place.mkdir()
    driver = StandIn(place / "driver")
    driver.write(StandIn.devices(DEVICES))
    env = driver.environment(build(Path(".build/standin").absolute()))
    queue = kind(place, env)
    try:
        out = {"": queue.name}
        out |= _submits_and_starts(queue, place, count)
        with subprocess.Popen(["sleep", "1000"]) as stranger:
            try:
                out |= _squatted(queue, driver, place, stranger.pid)
            finally:
                stranger.kill()
        return out
    finally:
        queue.close()


def _submits_and_starts(queue: Contender, place: Path, count: int) -> dict[str, str]:
    """The first submission, which may start a process, is not counted."""
    begun = place / "begun"
    queue.submit(f"date +%s.%N >> {begun}")
    if not _lines(begun, 1):
        return {"submit, median seconds": "it starts nothing"}
    begun.unlink()
    walls = []
    for _ in range(SUBMITS):
        at = time.monotonic()
        queue.submit("true")
        walls.append(time.monotonic() - at)
    queue.submit(f"date +%s.%N >> {begun}", count)
    times = sorted(map(float, _lines(begun, count)))
    rate = (len(times) - 1) / max(1e-9, times[-1] - times[0]) if len(times) > 1 else 0.0
    return {
        "submit, median seconds": f"{statistics.median(walls):.3f}",
        f"starts a second, of {count} jobs": f"{rate:.1f}",
    }


def _squatted(queue: Contender, driver: StandIn, place: Path, pid: int) -> dict[str, str]:
    """Every GPU has a process that no queue started; then the queue's process is killed."""
    ran, numbers = place / "ran", range(KILLED_JOBS)
    for device in range(DEVICES):
        driver.change(device, processes=(StandInProcess(pid),))
    time.sleep(SQUAT_SECONDS)
    queue.submit(f"echo squat >> {ran}")
    time.sleep(SQUAT_SECONDS)
    squat = "started on it" if ran.exists() else "waits"
    for number in numbers:
        queue.submit(f"echo {number} >> {ran}")
    queue.kill()
    for device in range(DEVICES):
        driver.change(device, processes=())
    queue.revive()
    lines = _lines(ran, KILLED_JOBS + 1)
    lost = sum(str(number) not in lines for number in numbers)
    twice = sum(lines.count(str(number)) > 1 for number in numbers)
    return {
        "a GPU that a process without a lease uses": squat,
        f"kill -9 with {KILLED_JOBS} jobs queued": f"{lost} lost, {twice} twice",
    }


def _lines(path: Path, count: int) -> list[str]:
    """The lines of a file once there are so many, or those that came while it was waited for."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = path.read_text().split() if path.exists() else []
        if len(found) >= count:
            time.sleep(1.0)  # for any that come twice
            return path.read_text().split()
        time.sleep(0.1)
    return path.read_text().split() if path.exists() else []
