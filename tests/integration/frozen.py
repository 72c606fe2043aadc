"""Run inside a mount namespace: a real uninterruptible driver call, and `andon status` beside it.

    unshare --mount python -m tests.integration.frozen SCRATCH

makes a file system in SCRATCH, freezes it, and asks for the status of a node on which one device's
calls write to it. Prints what happened as JSON, and thaws whatever happens.
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.standin import StandIn, build, hang_file
from tests.support.freezing import file_system, frozen, uninterruptible

REPOSITORY = Path(__file__).parents[2]


def main(scratch: Path) -> None:
    with file_system(scratch) as mount:
        print(json.dumps(freeze_and_ask(scratch, mount)))


def freeze_and_ask(scratch: Path, mount: Path) -> dict[str, object]:
    node = StandIn(scratch / "standin")
    node.write(StandIn.devices(8))
    node.set_faults(hang_file(mount / "stuck", device=5))
    library = build(REPOSITORY / ".build" / "standin")
    with frozen(mount) as rescue:
        command = [sys.executable, "-m", "andon.cli", "status", "--json"]
        done = subprocess.run(command, capture_output=True, env=node.environment(library))
        rescued = rescue.came
        stuck = uninterruptible(b"andon-reader")
    return {
        "code": done.returncode,
        "snapshot": json.loads(done.stdout),
        "returned_by_itself": not rescued,
        "stuck_readers": stuck,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
