"""A file system of a test's own that is frozen: who writes to it waits where no signal ends it.

Only inside a mount namespace: `unshare --mount python -m …`.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_SECONDS = 80.0  # longer than two commands take on a busy machine


@contextmanager
def file_system(scratch: Path) -> Iterator[Path]:
    """A small one, mounted below this folder."""
    image, mount = scratch / "image", scratch / "mount"
    mount.mkdir()
    subprocess.run(["truncate", "-s", "16M", image], check=True)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    try:
        yield mount
    finally:
        # Lazily: a process that was stuck may need a moment more to die.
        subprocess.run(["umount", "--lazy", mount], check=True)


class Rescue:
    """Thaws after a while, even if the program under test never returns."""

    def __init__(self, mount: Path) -> None:
        self._thaw = ["/usr/sbin/fsfreeze", "-u", str(mount)]
        self._timer = threading.Timer(LIMIT_SECONDS, subprocess.run, (self._thaw,))
        self._timer.start()

    @property
    def came(self) -> bool:
        return not self._timer.is_alive()

    def end(self) -> None:
        self._timer.cancel()
        if not self.came:
            subprocess.run(self._thaw, check=True)


@contextmanager
def frozen(mount: Path) -> Iterator[Rescue]:
    subprocess.run(["/usr/sbin/fsfreeze", "-f", mount], check=True)
    rescue = Rescue(mount)
    try:
        yield rescue
    finally:
        rescue.end()


def uninterruptible(words: bytes) -> list[int]:
    """Processes with these words in their command, in the state that no signal ends."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        try:
            state = stat.read_text().rpartition(")")[2].split()[0]
            # The thread's, because its leader was killed.
            command = (stat.parent / "cmdline").read_bytes() + (stat.parent / "comm").read_bytes()
        except OSError:
            continue
        if state == "D" and words in command:
            found.append(int(stat.parents[2].name))
    return sorted(set(found))
