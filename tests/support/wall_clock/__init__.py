"""A wall clock that a test sets, or lets go faster, while the processes under it run.

libfaketime does the same, but with 0.9.10 every `time.sleep` of Python 3.11 fails (EINVAL).
"""

import hashlib
import os
import struct
import subprocess
import time
from pathlib import Path

from tests.standin.build import find_compiler

_SOURCE = Path(__file__).with_name("wall_clock.c")
_FOLDER = Path(__file__).parents[3] / ".build"


class WallClock:
    """The clock of every process that is started with `environment`."""

    VARIABLES = ("LD_PRELOAD", "TEST_WALL_CLOCK")

    def __init__(self, folder: Path) -> None:
        self._file, self._library, self.offset = folder / "clock", _built(), 0
        self._gains, self._since_ns = 0, time.monotonic_ns()
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "TEST_WALL_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """Set it forward or back, for everyone at once."""
        self.offset += seconds
        self._file.touch()
        with self._file.open("r+b") as file:
            file.write(struct.pack("<qqq", self.offset, self._gains, self._since_ns))

    def hurry(self, times: int) -> None:
        """From now on a second lasts this many; sleeps and steady clocks are as they were."""
        self._gains, self._since_ns = times - 1, time.monotonic_ns()
        self.step(0)

    def now(self) -> float:
        steady = (time.monotonic_ns() - self._since_ns) / 1e9
        return time.time() + self.offset + self._gains * steady


def _built() -> Path:
    """The library, built once for its source; under another name until it is complete."""
    name = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    library = _FOLDER / f"wall_clock-{name}.so"
    if not library.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        made = library.with_suffix(f".{os.getpid()}")
        flags = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
        subprocess.run([*find_compiler(), *flags, "-o", str(made), str(_SOURCE)], check=True)
        made.replace(library)
    return library
