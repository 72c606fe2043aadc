"""What `andon who` bills, against the driver's counter and the run's record: run this file alone.

Three servers read the same GPU every 1, 5 and 20 s while two loads run under `andon run`: one
computes for 40 s, the other computes and sleeps for 6 s each. Takes four minutes. Needs torch,
psutil and andon on the path: PYTHONPATH=src python3 -m tests.device.billing [--standin]
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tests.support.homes import own_folders

INTERVALS, RANGES = (1.0, 5.0, 20.0), ("1h", "24h", "7d")
LOADS = {"steady": (40.0, 0.0, 40.0), "half idle": (6.0, 6.0, 60.0)}
"""Seconds of computing and of sleep in turn, and of all."""
ENERGY_SHARE, IDLE_POINTS = 0.03, 5.0
SETTLE_SECONDS = 12.0  # beyond an interval: a flush comes every five seconds
START_SECONDS = 60.0
COMMAND = (sys.executable, "-m", "andon.cli")
BUSY_MILLIWATTS, HELD_MILLIWATTS, IDLE_MILLIWATTS = 690_000, 115_000, 76_000


def compute(computes: float, sleeps: float, lasts: float, standin: bool) -> None:
    """The load: prints what its GPU is to show to the stand-in, then the counter's difference."""
    nvml: Any = import_module("pynvml")
    torch: Any = None if standin else import_module("torch")
    nvml.nvmlInit()
    card = nvml.nvmlDeviceGetHandleByIndex(0)
    before, began = nvml.nvmlDeviceGetTotalEnergyConsumption(card), time.monotonic()
    end, square = began + lasts, cast("Any", None)
    while time.monotonic() < end:
        print("busy", os.getpid(), flush=True)
        until = min(end, time.monotonic() + computes)
        if torch is not None and square is None:
            square = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        while time.monotonic() < until:
            if torch is None:
                time.sleep(max(0.0, until - time.monotonic()))
                continue
            for _ in range(20):
                _ = square @ square
            torch.cuda.synchronize()
        if sleeps:
            print("idle", os.getpid(), flush=True)
            time.sleep(max(0.0, min(sleeps, end - time.monotonic())))
    joules = (nvml.nvmlDeviceGetTotalEnergyConsumption(card) - before) / 1000
    print(json.dumps({"joules": joules, "seconds": time.monotonic() - began}), flush=True)


class Device:
    """The GPU; of the stand-in, what the load says of it is written to it."""

    def __init__(self, standin: bool, folder: Path) -> None:
        self.standin: Any = None
        if standin:
            from tests.standin import StandIn, build

            repository = Path(__file__).parent.parent.parent
            self.standin = StandIn(folder)
            self.standin.write(StandIn.devices(1))
            os.environ |= self.standin.environment(build(repository / ".build" / "standin"))

    def show(self, state: str, pid: int = 0) -> None:
        if self.standin is None:
            return
        from tests.standin import StandInProcess

        on = (StandInProcess(pid, 2 << 30),) if pid else ()
        watts = {"busy": BUSY_MILLIWATTS, "idle": HELD_MILLIWATTS}.get(state, IDLE_MILLIWATTS)
        busy = 99 if state == "busy" else 0
        self.standin.change(
            0, gpu_utilisation=busy, power_mw=watts, used=len(on) << 31, processes=on
        )


def run(device: Device, name: str, env: dict[str, str]) -> dict[str, Any]:
    """Runs a load under `andon run`; returns what it read of the counter, and its record."""
    words = [str(value) for value in (*LOADS[name], int(device.standin is not None))]
    load = [sys.executable, "-m", "tests.device.billing", "--load", *words]
    asked = [*COMMAND, "run", "--gpus", "1", "--name", name.replace(" ", "-"), "--", *load]
    said: dict[str, Any] = {}
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                said = json.loads(line)
            elif line.startswith(("busy", "idle")):
                device.show(line.split()[0], int(line.split()[1]))
        device.show("gone")
    assert process.returncode == 0, f"the load ended with {process.returncode}"
    listed = json.loads(andon(env, "runs", "--json"))["runs"]
    record = max(listed, key=lambda one: one["began"])
    computes, sleeps, _ = LOADS[name]
    # The record's own share has the start of Python in it, when nothing was on the GPU yet.
    return {**said, "record": record["energy_joules"], "idle": sleeps / (computes + sleeps)}


@contextmanager
def served(interval: float, folder: Path) -> Iterator[str]:
    """A server with a state folder of its own; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, **own_folders(folder), "ANDON_INTERVAL": f"{interval:g}"}
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", str(port)], env=env, stdout=log, stderr=log
    )
    try:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/healthz", timeout=2).read()
                break
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait()
        log.close()


def andon(env: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env=env, check=False, timeout=60
    )
    assert done.returncode == 0, f"andon {' '.join(words)}: {done.stderr}"
    return done.stdout


def billed(env: dict[str, str], url: str) -> dict[str, tuple[float, float, float]]:
    """By range: joules, seconds and idle seconds of everybody."""
    found = {}
    for since in RANGES:
        users = json.loads(andon(env, "who", "--url", url, "--since", since, "--json"))["users"]
        rows = [
            (user["energy_joules"] or 0.0, user["device_seconds"] or 0.0, user["idle_share"] or 0.0)
            for user in users
        ]
        joules, seconds = sum(row[0] for row in rows), sum(row[1] for row in rows)
        found[since] = joules, seconds, sum(row[1] * row[2] for row in rows)
    return found


def main(standin: bool) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        device = Device(standin, folder / "standin" if standin else folder)
        for one in ("run", *(f"every {interval:g} s" for interval in INTERVALS)):
            (folder / one).mkdir()
        servers = {
            interval: stack.enter_context(served(interval, folder / f"every {interval:g} s"))
            for interval in INTERVALS
        }
        env = {**os.environ, **own_folders(folder / "run")}
        time.sleep(2 * SETTLE_SECONDS)  # each has read the idle device at least once
        before = {interval: billed(env, url) for interval, url in servers.items()}
        for load in LOADS:
            said = run(device, load, env)
            time.sleep(max(INTERVALS) + SETTLE_SECONDS)
            after = {interval: billed(env, url) for interval, url in servers.items()}
            failed += compared(load, said, before, after)
            before = after
    print(f"\n{'all within the bounds' if not failed else f'{failed} OUTSIDE the bounds'}")
    return 1 if failed else 0


def compared(load: str, said: dict[str, Any], before: Any, after: Any) -> int:
    """Prints a table; returns how many figures are outside the bounds."""
    counter, failed = said["joules"], 0
    off, idle = said["record"] / counter - 1, 100 * said["idle"]
    print(f"\n{load}: {counter:.0f} J by the counter in {said['seconds']:.1f} s; "
          f"run record {said['record']:.0f} J ({off:+.1%}); idle {idle:.0f} %")  # fmt: skip
    for interval in INTERVALS:
        for since in RANGES:
            joules, seconds, rested = (
                new - old
                for new, old in zip(after[interval][since], before[interval][since], strict=True)
            )
            share, points = joules / counter - 1, 100 * (rested / seconds if seconds else 0.0)
            # Few readings of a load that changes every six seconds are a sample of it: they do not
            # tell when it ended, nor how long it was idle.
            is_sample = load != "steady" and interval > LOADS[load][0]
            wrong = abs(share) > ENERGY_SHARE * (2 if is_sample else 1)
            wrong |= interval <= 1.0 and abs(points - idle) > IDLE_POINTS
            failed += wrong
            print(f"  every {interval:4g} s  {since:>3}  {joules:8.0f} J {share:+7.2%}  "
                  f"{seconds:5.1f} s  idle {points:3.0f} %  {'WRONG' if wrong else 'ok'}",
                  flush=True)  # fmt: skip
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        *parts, last = map(float, sys.argv[2:6])
        compute(parts[0], parts[1], parts[2], bool(last))
    else:
        parser = argparse.ArgumentParser(prog="python -m tests.device.billing")
        parser.add_argument("--standin", action="store_true", help="without a GPU")
        sys.exit(main(parser.parse_args().standin))
