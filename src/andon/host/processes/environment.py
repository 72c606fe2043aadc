"""The environment of one of this user's processes, read by a process of its own.

Reading another process's environment takes that process's memory lock, which can hang as a driver
does: the caller then continues without it.
"""

import os
import subprocess
from pathlib import Path

from andon.errors import Denied, Gone, Unavailable
from andon.host.interpreter import isolated_command

TIMEOUT_SECONDS = 1.0
MOST_BYTES = 256 * 1024
_READ = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read(int(sys.argv[2])))"


def read_environment(pid: int, root: Path = Path("/")) -> dict[str, str]:
    """The variables; raises Denied for another user's process, Gone for one that has ended."""
    folder = root / "proc" / str(pid)
    try:
        owner = folder.stat().st_uid
    except OSError as exc:
        raise Gone(f"process {pid} has ended") from exc
    if owner != os.geteuid():
        raise Denied("it belongs to another user; only your own is shown")
    return parse_environment(_read(folder / "environ"))


def _read(path: Path) -> bytes:
    command = isolated_command("-c", _READ, str(path), str(MOST_BYTES))
    reading = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        content, _ = reading.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as exc:
        reading.kill()  # and not waited for: it may be stuck in the kernel
        raise Unavailable("it cannot be read now: the process does not answer") from exc
    if reading.returncode != 0:
        shut = Denied("the system does not show it")
        raise shut if path.exists() else Gone("the process has ended")
    return content


def parse_environment(content: bytes) -> dict[str, str]:
    """The variables of a /proc/PID/environ, in their order."""
    pairs = (part.partition(b"=") for part in content.split(b"\0") if b"=" in part)
    return {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for name, _, value in pairs
        if name
    }
