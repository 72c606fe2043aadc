"""What steady state looks like: three loops recorded by `andon run`, and their reports.

    python -m bench.steady_state --seconds 60 --out steady

Prints each report, and a table for docs/steady-state.md. Needs a GPU and torch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    told = _andon("runs", "report", str(record), "--format", "json", quiet=True)
    return loop, json.loads(told)


def _andon(*words: str, quiet: bool = False) -> str:
    command = [sys.executable, "-m", "andon", *words]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE if quiet else None)
    return done.stdout or ""


def _table(rows: list[tuple[str, dict[str, Any]]]) -> list[str]:
    titles = ["loop", *(name for name, _, _ in COLUMNS), "idle", "idle spells", "energy", "advice"]
    lines = [titles, ["---"] * len(titles), *(_row(loop, found) for loop, found in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _row(loop: str, found: dict[str, Any]) -> list[str]:
    device = found["devices"][0]
    cells = [_reading(device["readings"].get(name), unit) for _, name, unit in COLUMNS]
    spells, idle = device["spells"], device["idle_share"]
    each = f"{spells['count']} of {spells['mean_seconds']:.2f} s" if spells else "none"
    joules = device["energy_joules"]
    advice = ", ".join(one["name"] for one in found["advice"]) or "none"
    return [
        loop,
        *cells,
        "not known" if idle is None else f"{100 * idle:.1f} %",
        each,
        "not known" if joules is None else f"{joules:.0f} J",
        advice,
    ]


def _reading(figures: dict[str, float] | None, unit: str) -> str:
    if figures is None:
        return "not known"
    return f"{figures['mean']:.0f} ({figures['min']:.0f} to {figures['max']:.0f}) {unit}"


if __name__ == "__main__":
    main()
