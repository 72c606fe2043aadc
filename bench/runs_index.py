"""How fast runs are found: `python -m bench.runs_index` lists 10,000 of them by `andon runs`."""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from andon.model.run.record import (
    RunBegin,
    RunDevice,
    RunEnd,
    RunKind,
    RunLine,
    RunSample,
    RunState,
)
from andon.model.run.wire import line_to_text
from bench.history import Target

RUNS, ROUNDS, SAMPLES = 10_000, 5, 20
LIST_SECONDS = 0.5
BEGAN = 1_790_000_000.0
DEVICES = tuple(RunDevice(f"GPU-{n}", n, str(n), "NVIDIA H200", 150 << 30) for n in range(8))


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ |= {"XDG_STATE_HOME": folder, "HOME": folder}
        records = home / "andon" / "runs"
        records.mkdir(parents=True, mode=0o700)
        records.parent.chmod(0o700)
        for number in range(options.runs):
            _write(records / f"train_{number}.jsonl", number)
        print(f"{options.runs} records of {SAMPLES} samples and {len(DEVICES)} devices")
        added = _timed("runs", "add", str(records))
        print(f"andon runs add: {added[0]:.1f} s, {added[0] / options.runs * 1000:.2f} ms a record")
        listed = _measured("andon runs", options.rounds, "runs")
        _measured("andon runs --tag paper", options.rounds, "runs", "--tag", "paper")
        _measured("andon runs -n 0 --json", options.rounds, "runs", "-n", "0", "--json")
        _measured("andon runs show", options.rounds, "runs", "show", "run00042")
        _measured("andon version", options.rounds, "version")
        print(Target(f"andon runs with {options.runs} runs, seconds", listed, LIST_SECONDS))


def _measured(label: str, rounds: int, *words: str) -> float:
    """The median of the wall time; the first one fills the caches."""
    found = [_timed(*words) for _ in range(rounds + 1)][1:]
    wall, cpu = (statistics.median(one[place] for one in found) for place in (0, 1))
    print(f"{label:<26} wall {wall:.3f} s, CPU {cpu:.3f} s")
    return wall


def _timed(*words: str) -> tuple[float, float]:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "andon", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu


def _write(path: Path, number: int) -> None:
    at = BEGAN + number * 60
    begin = RunBegin(
        at, f"run{number:05}", f"train-{number % 50}", RunKind.COMMAND, "node-1", "ada", 4242,
        "boot", 100.0, DEVICES, command="python train.py --epochs 3",
        tags=("paper",) if number % 100 == 0 else (),
    )  # fmt: skip
    readings = {"state": "ok", "utilization_percent": 90, "memory_used_bytes": 70 << 30}
    samples = [
        RunSample(at + n, {device.uuid: readings for device in DEVICES}) for n in range(SAMPLES)
    ]
    used = {"samples": SAMPLES, "energy_joules": 9e4, "utilization_percent": {"mean": 90.0}}
    end = RunEnd(
        at + SAMPLES, RunState.SUCCEEDED, float(SAMPLES), SAMPLES,
        {device.uuid: used for device in DEVICES}, exit_code=0,
    )  # fmt: skip
    lines: list[RunLine] = [begin, *samples, end]
    path.write_text("".join(map(line_to_text, lines)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
