"""How long a process has waited for CPU time, which on a busy machine is not the driver's fault."""

import os

from andon.host.files.kernel import read

NANOSECONDS = 1e9
_BYTES = 128


def starved_seconds(pid: int, proc: str = "/proc") -> float:
    """Returns how long that thread of the process waited for a processor which waited longest; 0 if
    the kernel does not count it."""
    tasks = f"{proc}/{pid}/task"
    try:
        found = os.listdir(tasks)  # noqa: PTH208 - names are enough
    except OSError:
        return 0.0
    texts = [read(f"{tasks}/{task}/schedstat", _BYTES) or b"" for task in found]
    return max(map(waited_seconds, texts), default=0.0)


def waited_seconds(text: bytes) -> float:
    """Reads the waiting time from a `schedstat`: time on a processor, time waiting for one, number
    of turns."""
    fields = text.split()
    return int(fields[1]) / NANOSECONDS if len(fields) >= 2 and fields[1].isdigit() else 0.0
