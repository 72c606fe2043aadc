"""A wall clock that a test sets while the processes under it run.

libfaketime does the same, but with 0.9.10 every `time.sleep` of Python 3.11 fails (EINVAL).
"""

import subprocess
import time
from pathlib import Path

from tests.standin.build import find_compiler

_SOURCE = Path(__file__).with_name("wall_clock.c")


class WallClock:
    """The clock of every process that is started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._file, self._library, self.offset = folder / "clock", folder / "clock.so", 0
        flags = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
        command = [*find_compiler(), *flags, "-o", str(self._library), str(_SOURCE)]
        subprocess.run(command, check=True)
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "TEST_WALL_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """Set it forward or back, for everyone at once."""
        self.offset += seconds
        self._file.touch()
        with self._file.open("r+b") as file:
            file.write(self.offset.to_bytes(8, "little", signed=True))

    def now(self) -> float:
        return time.time() + self.offset
