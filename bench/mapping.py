"""What a map costs an item, beside GNU parallel: `python -m bench.mapping`."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.history import Target

PLAIN_MS, WORKER_MS = 30.0, 1.0
CONTAINERS = 11
LISTED = "ITEMS"  # stands for the file with the items
ECHO = (
    "import sys\n"
    "for line in sys.stdin:\n"
    "    print(line.split(',')[0] + ', \"ok\": true}', flush=True)\n"
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--items", type=int, default=500)
    options.add_argument("--worker-items", type=int, default=5000)
    options.add_argument("--image", help="also with a container per item of this image")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "XDG_STATE_HOME": folder, "ANDON_LEASE_DIR": f"{folder}/book",
            "ANDON_SIMULATE_SCENARIO": "idle",
        }  # fmt: skip
        plain = []
        for count in (1, 2, 4):  # in turns, so that both see the same machine
            plain.append(_map(Path(folder), count, asked.items, "true"))
            beside = _parallel(Path(folder), count, asked.items)
            other = "is not installed" if beside is None else f"{beside:.2f} ms"
            print(f"{count} workers, plain: {plain[-1]:.2f} ms an item; GNU parallel {other}")
        if asked.image:
            _containers(Path(folder), asked.image)
        worker = _map(Path(folder), 1, asked.worker_items, sys.executable, "-c", ECHO, worker=True)
        print(Target("one worker with plain commands, ms an item", plain[0], PLAIN_MS))
        print(Target("one worker with --worker, ms an item", worker, WORKER_MS))


def _map(folder: Path, workers: int, items: int, *command: str, worker: bool = False) -> float:
    words = [sys.executable, "-m", "andon", "map", "--simulate", str(workers), "-q"]
    words += ["--worker"] if worker else []
    return _an_item(folder, items, [*words, "--items", LISTED, "--", *command])


def _containers(folder: Path, image: str) -> None:
    """A container per item, beside the engine's own command for the same."""
    inside = ("sh", "-c", "true")
    words = ["--image", image, "--container-option=--network=none", "--items", LISTED]
    command = [sys.executable, "-m", "andon", "map", "--simulate", "1", "-q", *words, "--", *inside]
    found = _an_item(folder, CONTAINERS, command)
    alone = 1000 * _timed(["docker", "run", "--rm", "--network=none", image, *inside])
    print(f"1 worker, --image: {found:.0f} ms an item; docker run --rm {alone:.0f} ms")


def _parallel(folder: Path, workers: int, items: int) -> float | None:
    program = shutil.which("parallel")
    if program is None:
        return None
    command = [program, "--will-cite", "-j", str(workers), "-a", LISTED, "true"]
    return _an_item(folder, items, command)


def _an_item(folder: Path, items: int, command: list[str]) -> float:
    """Without the start: the difference between many items and one."""
    seconds = []
    for count in (1, items):
        listed = folder / "items.txt"
        listed.write_text("".join(f"{number}\n" for number in range(count)))
        seconds.append(_timed([str(listed) if word == LISTED else word for word in command]))
    return 1000 * (seconds[1] - seconds[0]) / (items - 1)


def _timed(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
