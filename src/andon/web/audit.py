"""The append-only log of every change that was asked for: who, from where, what came of it."""

import json
import os
import threading
import time
from pathlib import Path

from andon.errors import Unavailable

NAME = "audit.jsonl"


class Audit:
    """One JSON line per fact; what cannot be written down is not done."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._lock = threading.Lock()

    def write(self, event: str, **facts: object) -> None:
        """Append a line. Opened anew each time, so that logrotate may move the file."""
        line = json.dumps({"at": round(time.time(), 3), "event": event, **facts}) + "\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with self._lock:
                descriptor = os.open(self.path, flags, 0o600)
                try:
                    _write_whole(descriptor, line.encode("utf-8"))
                finally:
                    os.close(descriptor)
        except OSError as exc:
            raise Unavailable(
                f"the audit log cannot be written: {exc.strerror or exc}",
                hint=f"nothing was changed; make room for {self.path}",
            ) from exc


def _write_whole(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if os.write(descriptor, line) != len(line):
        os.ftruncate(descriptor, size)  # half a line would spoil the next one
        raise OSError(28, "No space left on device")
