"""Cost of one sample of a node, with andon and other tools: `python -m bench.sampling`."""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from bench import nodes, tables
from bench.figures import MODES, ONE_HERTZ, Combo, Place, Series
from bench.targets import verdicts
from bench.tools import TOOLS

SPARE_SECONDS = 60.0


def main() -> None:
    options = _options()
    combos = []
    for combo in _combos(options):
        combos.append(combo)
        print(tables.table(combo), flush=True)
    print(tables.fields(combos))
    judged = list(verdicts(combos))
    print("targets\n-------")
    print("\n".join(map(str, judged)))
    if options.json:
        found = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": " ".join(["python", "-m", "bench.sampling", *sys.argv[1:]]),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "combos": [
                {"place": str(c.place), "series": [s.to_json() for s in c.series]} for c in combos
            ],
            "targets": [{"promise": v.promise, "measured": v.measured, "reached": v.reached}
                        for v in judged],
        }  # fmt: skip
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.sampling", description=__doc__)
    parser.add_argument("--devices", type=_numbers, default=[1, 8, 64], metavar="N,…")
    parser.add_argument("--processes", type=_numbers, default=[0, 40], metavar="N,…")
    parser.add_argument("--ticks", type=int, default=60, help="samples per tool at 1 Hz")
    parser.add_argument("--tight-ticks", type=int, default=300, help="samples in a tight loop")
    parser.add_argument(
        "--tight-seconds", type=float, default=15.0, help="time limit of a tight loop"
    )
    parser.add_argument("--only", choices=MODES, help="only this mode")
    parser.add_argument("--tools", type=_tools, default=list(TOOLS), metavar="TOOL,…",
                        help=f"of {', '.join(TOOLS)}")  # fmt: skip
    parser.add_argument("--real", action="store_true", help="this machine's driver")
    parser.add_argument("--load", action="store_true", help="with --real: busy, with one process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample there")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _tools(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in TOOLS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
    return names


def _combos(options: argparse.Namespace) -> Iterator[Combo]:
    if options.real:
        name = "this machine, " + ("under load" if options.load else "as it is")
        combo = _measure(Place(name, True, 0, 0), nodes.real(options.load), options)
        first = next((s for s in combo.series if s.wall), Series("", ""))
        yield Combo(Place(name, True, first.devices, first.processes), combo.series)
        return
    for devices in options.devices:
        for processes in options.processes:
            place = Place("stand-in", False, devices, processes)
            yield _measure(place, nodes.standin(devices, processes), options)


def _measure(
    place: Place,
    node: AbstractContextManager[nodes.Environment],
    options: argparse.Namespace,
) -> Combo:
    """One tool after another: side by side they would disturb each other."""
    modes = [options.only] if options.only else MODES
    with node as environment:
        found = [_run(tool, mode, environment, options) for mode in modes for tool in options.tools]
    return Combo(place, tuple(found))


def _run(
    tool: str, mode: str, environment: nodes.Environment, options: argparse.Namespace
) -> Series:
    paced = mode == ONE_HERTZ
    ticks = options.ticks if paced else options.tight_ticks
    # A tool that takes longer than a second per tick is stopped by the clock at 1 Hz too.
    limit_seconds = 2.0 * ticks if paced else options.tight_seconds
    print(f"… {tool}, {mode}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            nodes.command(tool, mode, str(ticks), str(limit_seconds)),
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_seconds + SPARE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Series(tool, mode, absent=f"no answer after {limit_seconds + SPARE_SECONDS:.0f} s")
    if done.returncode != 0:
        words = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return Series(tool, mode, absent=words)
    return Series.from_json(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
