"""Cost of recording a run: `python -m bench.runs` records 8 simulated devices at 1 Hz.

Prints the CPU time that recording adds to sampling, per sample and as a share of a core: the
recorder's own thread with its alerts, the process that writes the file, and, where there is an
NVIDIA driver, reading its ring of utilisation every 13 seconds.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from andon.drivers.nvidia.backend import Nvidia
from andon.errors import AndonError
from andon.explain.conditions.rulebook import Rulebook
from andon.model.device import Host, Snapshot
from andon.model.run.record import RunKind, RunLogged, RunState
from andon.runs.alert_lines import RunAlerts
from andon.runs.header import new_run, record_path
from andon.runs.line_pipe import LinePipe
from andon.runs.record import RING_SECONDS, RunOutcome, RunRecorder
from bench.alerts import MOODS, snapshots_in

DEVICES, TICKS, MOST_PERCENT = 8, 300, 0.3
LOGGED = 10_000
RINGS = 5
HOST = Host(40.0)


def main() -> None:
    options = _options()
    worst, ring = 0.0, _ring_milliseconds()
    print(f"{options.devices} devices, {options.ticks} samples, CPU per sample in milliseconds")
    print(f"{'':10} recorder  alerts  writer    sum  of a core at 1 Hz   file")
    for mood in MOODS:
        spent = _recorded(mood, options.devices, options.ticks)
        total = sum(spent[:3])
        worst = max(worst, total / 10)
        print(f"{mood:10} {spent[0]:8.3f} {spent[1]:7.3f} {spent[2]:7.3f} {total:6.3f} "
              f"{total / 10:15.3f} %  {spent[3] / 1024:5.0f} KiB")  # fmt: skip
    if ring is None:
        print("the driver's ring: no NVIDIA device here, so it is not in the sum")
    else:
        share = ring * options.devices / RING_SECONDS / 10
        worst += share
        print(f"the driver's ring: {ring:.2f} ms a device, {share:.3f} % of a core")
    print(_logged(options.logged))
    verdict = "kept" if worst < MOST_PERCENT else "MISSED"
    print(f"target: under {MOST_PERCENT} % of a core: {worst:.3f} %  {verdict}")
    sys.exit(worst >= MOST_PERCENT)


def _recorded(mood: str, devices: int, ticks: int) -> tuple[float, float, float, int]:
    """Milliseconds per sample of the recorder, its alerts and its writer; the size of the file."""
    snapshots = list(_with_host(mood, devices, ticks))
    uuids = [status.device.uuid for status in snapshots[0].devices]
    begin = new_run(RunKind.COMMAND, "bench", snapshots[0], uuids, {})
    alerts, judged, taken = RunAlerts(frozenset(uuids), Rulebook), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        path = record_path(Path(folder), "bench", time.time())
        before = os.times()
        recorder = RunRecorder(begin, LinePipe(path, print), None)
        recorder.start()
        for snapshot in snapshots:
            taken.append(_cpu(recorder.take, snapshot))
            judged.append(_cpu(alerts.take, snapshot))
        recorder.end(RunOutcome(RunState.SUCCEEDED))
        after, size = os.times(), path.stat().st_size
    writer = after.children_user + after.children_system
    writer -= before.children_user + before.children_system
    return 1000 * median(taken), 1000 * median(judged), 1000 * writer / ticks, size


def _logged(steps: int) -> str:
    """What so many calls of log cost the program, and take in its record."""
    begin = new_run(RunKind.COMMAND, "bench", Snapshot("bench", time.time()), (), {})
    with tempfile.TemporaryDirectory() as folder:
        path = record_path(Path(folder), "bench", time.time())
        recorder = RunRecorder(begin, LinePipe(path, print), None)
        recorder.start()
        began = time.process_time()
        for step in range(steps):
            recorder.write(RunLogged(time.time(), {"loss": 1 / (1 + step), "lr": 1e-4}, step))
        spent = time.process_time() - began
        recorder.end(RunOutcome(RunState.SUCCEEDED))
        size = path.stat().st_size
    each = 1e6 * spent / max(1, steps)
    return f"{steps:,} logged steps: {each:.1f} us each, and {size / 1024:.0f} KiB in all"


def _ring_milliseconds() -> float | None:
    """CPU time of one reading of the driver's ring, of one device; None where there is none."""
    backend = Nvidia()
    try:
        cards = backend.open()
    except AndonError:
        return None
    try:
        spent = list[float]()
        for _ in range(RINGS):
            for card in cards:
                began = time.process_time()
                backend.account(card, energy=False)
                spent.append(1000 * (time.process_time() - began))
            time.sleep(1.0)  # the driver answers from a cache within a moment
        return median(spent) if spent else None
    finally:
        backend.close()


def _with_host(mood: str, devices: int, ticks: int) -> Iterator[Snapshot]:
    now = time.time()
    for number, snapshot in enumerate(snapshots_in(mood, devices, ticks)):
        yield replace(snapshot, at=now + number, host=HOST)


def _cpu(call: Callable[[Snapshot], object], snapshot: Snapshot) -> float:
    began = time.process_time()
    call(snapshot)
    return time.process_time() - began


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=DEVICES)
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--logged", type=int, default=LOGGED, metavar="STEPS")
    return parser.parse_args()


if __name__ == "__main__":
    main()
