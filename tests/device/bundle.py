"""Programs whose packages lie in folders of their own: `python -m tests.device.bundle [--standin]`.

Each is started with the standard library alone (`-I -S`), adds its folders to `sys.path` and must
read this machine's GPUs: by the monitor, and by the callback of a training loop. Prints a table.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import andon
from tests.device.scenes import Ground, RealGround, StandInGround
from tests.device.sharing import book, environment_of

LIMIT_SECONDS = 60.0
PACKAGES = ("msgspec", "pynvml", "click")
PROGRAM = """
import json, sys, time
sys.path[:0] = {folders!r}
{setup}
import andon
session = andon.get_gpu_monitor().start_monitoring(0.2)
time.sleep(1)
found = session.stop()
with andon.GpuMonitorCallback(name="bundle", quiet=True) as callback:
    for step in range(3):
        time.sleep(0.5)
        callback.step(step, loss=1.0)
print(json.dumps({{
    "andon": andon.__file__, "stats": {{k: v["name"] for k, v in found["gpu_stats"].items()}},
    "samples": callback.run.ended.samples, "why": callback.run.ended.no_samples_reason,
    "faults": found["faults"],
}}))
"""
SETTINGS = {
    "as it is": "",
    "sys.executable ''": "sys.executable = ''",
    "sys.executable None": "sys.executable = None",
    "a frozen program": "sys.frozen, sys.executable = True, '/bin/false'",
    "another program": "sys.executable = '/bin/false'",
}


def bundles(folder: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yields folders to be added: andon and its packages apart, and all of them copied into one."""
    source = Path(andon.__file__).parent
    vendor, whole = folder / "vendor", folder / "bundle"
    for place in (vendor, whole):
        place.mkdir()
    for found in _packages():
        (vendor / found.name).symlink_to(found)
        _copy(found, whole / found.name)
    _copy(source, whole / source.name)
    yield "links in a folder", [vendor, source.parent]
    yield "a copied bundle", [whole]


def _packages() -> Iterator[Path]:
    """Yields the modules that andon needs, wherever they can be imported from here."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            place = Path(spec.origin)
            yield place.parent if place.name == "__init__.py" else place


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copy2(source, target)
    else:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "board"))


def _run(folders: list[Path], setup: str, env: dict[str, str]) -> "dict[str, Any] | str":
    code = PROGRAM.format(folders=list(map(str, folders)), setup=setup)
    done = subprocess.run(
        [str(Path(sys.executable).resolve()), "-I", "-S", "-c", code],
        capture_output=True, text=True, timeout=LIMIT_SECONDS, env=env, check=False, cwd="/",
    )  # fmt: skip
    if done.returncode or not done.stdout:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {**json.loads(done.stdout.splitlines()[-1]), "warned": done.stderr.strip()}


def _judged(told: "dict[str, Any] | str", wanted: dict[str, str]) -> tuple[bool, str]:
    if isinstance(told, str):
        return False, told
    words = f"{len(told['stats'])} GPUs, {told['samples']} samples of the loop"
    more = told["why"] or told["warned"] or "; ".join(one["reason"] for one in told["faults"])
    return told["stats"] == wanted and told["samples"] > 0 and not told["warned"], (
        f"{words}; {more}" if more else words
    )


def main() -> int:
    ground: Ground = StandInGround(2) if "--standin" in sys.argv else RealGround()
    print(ground.idle().name)
    snapshot = andon.snapshot()
    wanted = {
        str(one.device.index): one.device.name
        for one in snapshot.devices
        if one.answered and one.device.parent is None
    }
    if not wanted:
        reasons = "; ".join(fault.reason for fault in snapshot.faults)
        print(f"no device can be read here: {reasons}", file=sys.stderr)
        return 3
    print(f"{', '.join(wanted.values())}; Python {sys.version.split()[0]}\n")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="andon-bundle-") as folder, book() as own:
        env = {name: t for name, t in environment_of(own).items() if name != "PYTHONPATH"}
        for bundle, folders in bundles(Path(folder)):
            for setting, setup in SETTINGS.items():
                started = time.perf_counter()
                is_ok, words = _judged(_run(folders, setup, env), wanted)
                failed += not is_ok
                took = time.perf_counter() - started
                word = "ok" if is_ok else "FAILED"
                print(f"{word:<7} {bundle:<18} {setting:<20} {took:4.1f} s  {words}", flush=True)
    print(f"\n{failed} FAILED" if failed else "\nall ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
