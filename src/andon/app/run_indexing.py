"""Adds one record to the index, in a separate process that may hang without delaying a run."""

import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from andon.app.runs import open_run_finder
from andon.app.settings import load_settings
from andon.errors import AndonError

PATIENCE_SECONDS = 10.0  # its first line is written by another process
POLL_SECONDS = 0.2


def main(arguments: Sequence[str]) -> int:
    return add(Path(arguments[0]))


def add(path: Path, patience_seconds: float = PATIENCE_SECONDS) -> int:
    """Adds the record, and returns 0 if that worked."""
    until = time.monotonic() + patience_seconds
    try:
        finder = open_run_finder(settings=load_settings({}).settings)
        with closing(finder.index):
            while finder.add([path]).refused:
                if time.monotonic() > until:
                    return 1
                time.sleep(POLL_SECONDS)
    except AndonError:
        return 1  # `andon runs add` can be called by hand
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
