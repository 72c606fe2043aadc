"""Runs the checks without pytest: `python -m tests.device [--only WORD,…]`."""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import andon
from tests.device.checks import Check, checks
from tests.device.record import record
from tests.device.scenes import Ground, RealGround, Scene, SkippedError, StandInGround, busy


class Tally:
    """The results of the checks, printed as they are made."""

    def __init__(self) -> None:
        self.ok = self.skipped = self.failed = 0

    def make(self, check: Check, scene: Scene) -> None:
        started = time.perf_counter()
        try:
            word, said = "ok", check.run(scene)
            self.ok += 1
        except SkippedError as skipped:
            word, said = "skipped", str(skipped)
            self.skipped += 1
        except Exception as exc:  # noqa: BLE001 - the other checks must still run
            word, said = "FAILED", f"{type(exc).__name__}: {exc} [{_line(exc)}]"
            self.failed += 1
        took = time.perf_counter() - started
        print(f"{word:<8} {check.name} ({took:.1f} s) – {said}", flush=True)


def _line(exc: Exception) -> str:
    """The line that failed, for a bare assertion."""
    last = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}: {last.line}"


def main() -> int:
    options = _options()
    ground: Ground = StandInGround(options.standin) if options.standin else RealGround()
    if not _has_devices():
        return 3
    if options.record:
        record(ground, options.record)
        return 0
    tally, only = Tally(), [word for word in options.only.split(",") if word]
    _in_scene(tally, ground.idle(), only)
    try:
        with busy(ground) as scene:
            _in_scene(tally, scene, only)
    except SkippedError as skipped:
        print(f"skipped  everything under load – {skipped}")
        tally.skipped += 1
    print(f"\n{tally.ok} ok, {tally.skipped} skipped, {tally.failed} FAILED")
    return 1 if tally.failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.device", description=__doc__)
    parser.add_argument("--standin", type=int, metavar="N", help="N devices of the stand-in")
    parser.add_argument("--only", default="", metavar="WORD,…", help="checks with these words")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write a fixture instead")
    return parser.parse_args()


def _has_devices() -> bool:
    snapshot = andon.snapshot()
    if not snapshot.devices:
        for fault in snapshot.faults:
            print(f"no device can be read: {fault.source}: {fault.reason}", file=sys.stderr)
    return bool(snapshot.devices)


def _in_scene(tally: Tally, scene: Scene, only: Sequence[str] = ()) -> None:
    print(f"\n{scene.name}\n{'-' * len(scene.name)}", flush=True)
    for check in checks(scene):
        if not only or any(word in check.name for word in only):
            tally.make(check, scene)


if __name__ == "__main__":
    sys.exit(main())
