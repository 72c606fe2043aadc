"""Run inside a mount namespace: a real uninterruptible driver call, and `andon status` beside it.

    unshare --mount python -m tests.integration.frozen SCRATCH

makes a file system in SCRATCH, freezes it, and asks for the status of a node on which one device's
calls write to it. Prints what happened as JSON, and thaws whatever happens.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path

from tests.standin import StandIn, build, hang_file

LIMIT_SECONDS = 30.0
REPOSITORY = Path(__file__).parents[2]


def uninterruptible() -> list[int]:
    """Readers in the state that no signal ends."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
            command = (stat.parent / "cmdline").read_bytes()  # the thread's: its leader was killed
        except OSError:
            continue
        if state == "D" and b"andon.reader" in command:
            found.append(int(stat.parents[2].name))
    return sorted(set(found))


def main(scratch: Path) -> None:
    image, mount = scratch / "image", scratch / "mount"
    mount.mkdir()
    subprocess.run(["truncate", "-s", "16M", image], check=True)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    try:
        print(json.dumps(freeze_and_ask(scratch, mount)))
    finally:
        # Lazily: the reader that was stuck may need a moment more to die.
        subprocess.run(["umount", "--lazy", mount], check=True)


def freeze_and_ask(scratch: Path, mount: Path) -> dict[str, object]:
    node = StandIn(scratch / "standin")
    node.write(StandIn.devices(8))
    node.set_faults(hang_file(mount / "stuck", device=5))
    library = build(REPOSITORY / ".build" / "standin")
    subprocess.run(["/usr/sbin/fsfreeze", "-f", mount], check=True)
    thaw = ["/usr/sbin/fsfreeze", "-u", str(mount)]
    rescue = threading.Timer(LIMIT_SECONDS, subprocess.run, (thaw,))  # even if andon never returns
    rescue.start()
    try:
        command = [sys.executable, "-m", "andon.cli", "status", "--json"]
        done = subprocess.run(command, capture_output=True, env=node.environment(library))
        rescued = not rescue.is_alive()
        stuck = uninterruptible()
    finally:
        rescue.cancel()
        if rescue.is_alive():
            subprocess.run(thaw, check=True)
    return {
        "code": done.returncode,
        "snapshot": json.loads(done.stdout),
        "returned_by_itself": not rescued,
        "stuck_readers": stuck,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
