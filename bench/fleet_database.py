"""The PostgreSQL of a measurement: with its own settings, so commits reach the disk."""

import atexit
import functools
import shutil
import signal
import tempfile
from pathlib import Path

from tests.support.postgres import Server


@functools.cache
def database() -> Server:
    folder = Path(tempfile.mkdtemp(prefix="andon-bench-pg."))
    found = Server(folder, settings=()).init().start()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(found.stop, signal.SIGQUIT)
    return found
