"""What steady state looks like: three loops recorded by `andon run`, and their reports.

    python -m bench.steady_state --seconds 60 --out steady

Prints each report, and a table for docs/steady-state.md of the second half of the time between the
first and the last work on the device: a start is not part of a steady state. Needs a GPU and torch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from andon.model.run.record import RunBegin, RunSample
from andon.model.utilisation import BARELY_BUSY_PERCENT
from andon.runs.rules.lines import RecordLines
from andon.runs.rules.summary import RunTallies
from bench.steady_loops import LOOPS

COLUMNS = (
    ("utilisation", "utilization_percent", "%"),
    ("SM active", "sm_active_percent", "%"),
    ("memory reads and writes", "memory_utilization_percent", "%"),
    ("power", "power_watts", "W"),
    ("SM clock", "sm_clock_mhz", "MHz"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=Path("steady"), help="folder for the records")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    rows = [_measured(loop, given.seconds, given.out) for loop in LOOPS]
    print("\n".join(_table(rows)))


def _measured(loop: str, seconds: float, folder: Path) -> tuple[str, dict[str, Any]]:
    """Record a loop; print its report; the report as JSON."""
    _andon("run", "--name", loop, "--telemetry-dir", str(folder), "--",
           sys.executable, "-m", "bench.steady_loops", loop, "--seconds", str(seconds))  # fmt: skip
    record = max(folder.glob(f"{loop}_*.jsonl"), key=lambda path: path.stat().st_mtime)
    _andon("runs", "report", str(record))
    _andon("runs", "report", str(record), "--format", "html", "--out", str(folder / f"{loop}.html"))
    told = json.loads(_andon("runs", "report", str(record), "--format", "json", quiet=True))
    return loop, {**at_work(record), "advice": told["advice"]}


def at_work(record: Path) -> dict[str, Any]:
    """What the device did in the second half of the time between its first and its last work."""
    lines = list(RecordLines().feed(record.read_bytes()))
    begin, samples = lines[0], [line for line in lines if isinstance(line, RunSample)]
    assert isinstance(begin, RunBegin)
    [device] = begin.devices
    busy = [n for n, one in enumerate(samples) if _percent(one, device.uuid) > BARELY_BUSY_PERCENT]
    within = samples[(busy[0] + busy[-1]) // 2 : busy[-1]]
    tallies = RunTallies(begin.devices, within[0].at)
    for one in within:
        tallies.add(one)
    [use] = tallies.summary().values()
    return dict(use)


def _percent(sample: RunSample, uuid: str) -> float:
    return float(sample.devices[uuid].get("utilization_percent") or 0.0)


def _andon(*words: str, quiet: bool = False) -> str:
    command = [sys.executable, "-m", "andon", *words]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE if quiet else None)
    return done.stdout or ""


def _table(rows: list[tuple[str, dict[str, Any]]]) -> list[str]:
    titles = ["loop", *(name for name, _, _ in COLUMNS), "advice"]
    lines = [titles, ["---"] * len(titles), *(_row(loop, found) for loop, found in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _row(loop: str, found: dict[str, Any]) -> list[str]:
    cells = [_reading(found.get(name), unit) for _, name, unit in COLUMNS]
    return [loop, *cells, ", ".join(one["name"] for one in found["advice"]) or "none"]


def _reading(figures: dict[str, float] | None, unit: str) -> str:
    if figures is None:
        return "not known"
    return f"{figures['mean']:.0f} ({figures['min']:.0f} to {figures['max']:.0f}) {unit}"


if __name__ == "__main__":
    main()
