"""Run inside a mount namespace: runs whose records go to a folder that does not respond.

    unshare --mount python -m tests.integration.frozen_record SCRATCH

Freezes a file system in SCRATCH while a command and a program are recorded there, and prints as
JSON what happened, and what the files hold after the thaw.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.support.freezing import file_system, frozen, uninterruptible
from tests.support.waiting import wait_for

PROGRAM = """
import sys, andon
with andon.run("program", telemetry_dir=sys.argv[1]) as run:
    run.log(step=1, loss=0.5)
print("ran")
"""


def main(scratch: Path) -> None:
    with file_system(scratch) as mount:
        print(json.dumps(recorded_there(mount)))


def recorded_there(mount: Path) -> dict[str, object]:
    folder = str(mount / "runs")
    words = ["run", "--simulate", "2", "--csv", "--telemetry-dir", folder, "--", "echo", "ran"]
    with frozen(mount) as rescue:
        began = time.monotonic()
        command = ended([sys.executable, "-m", "andon.cli", *words])
        program = ended([sys.executable, "-c", PROGRAM, folder])
        seconds, rescued = time.monotonic() - began, rescue.came
        stuck = uninterruptible(b"scribe.py")
    wait_for(lambda: not uninterruptible(b"scribe.py") and len(ends(mount)) == 2)
    return {
        "command": command,
        "program": program,
        "seconds": seconds,
        "returned_by_itself": not rescued,
        "stuck_writers": stuck,
        "after_the_thaw": ends(mount),
    }


def ended(command: list[str]) -> dict[str, object]:
    done = subprocess.run(command, capture_output=True, text=True)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def ends(mount: Path) -> list[str]:
    """The states of the records that are complete."""
    found = []
    for path in sorted(mount.glob("runs/*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        found += [line["state"] for line in lines if line["event"] == "end"]
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
