"""`andon serve` whose alerts know how late it is from a file: a test moves it on, and nobody waits.

    python -m tests.support.standing_clock serve --port 0

Times of day are real: since when something holds is what every other process says, too.
"""

import os
import sys
import time
from pathlib import Path

from andon.cli.main import run
from andon.host import clock

FILE = "STANDING_CLOCK"
STEP_SECONDS = 25.0  # a longer time without a look would not count
_elapsed = [0.0]


def clocks() -> tuple[float, float]:
    """Each look is a step later, until it is as late as the file says."""
    until = float(Path(os.environ[FILE]).read_text())
    _elapsed[0] = min(until, (_elapsed[0] or until) + STEP_SECONDS)
    return time.time(), _elapsed[0]


def move(file: Path, seconds: float) -> None:
    """Let so many seconds pass for the server with this file."""
    before = float(file.read_text()) if file.exists() else 1000.0
    unfinished = file.with_suffix(".new")
    unfinished.write_text(str(before + seconds))
    unfinished.replace(file)


if __name__ == "__main__":
    clock.clocks = clocks  # before the watcher takes it
    sys.exit(run(sys.argv[1:]))
