"""The audit log: every requested change, from where, with which key, and its result.

It is written in its own thread: a disk that hangs delays only the request that waits for its line.
"""

import asyncio
import json
import os
import queue
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from andon.errors import Unavailable
from andon.host.files import open_regular
from andon.node.audit_file import EARLIER, NAME

MOST_BYTES = 10_000_000  # then it is rotated; one earlier file is kept
MOST_WAITING = 64
DEADLINE_SECONDS = 3.0

_Line = tuple[bytes, "Future[None]"]


class Audit:
    """One JSON line per event; a change that cannot be logged is not made."""

    def __init__(
        self,
        folder: Path,
        most_bytes: int = MOST_BYTES,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self.path, self.earlier = folder / NAME, folder / EARLIER
        self._most_bytes, self._deadline = most_bytes, deadline_seconds
        self._waiting: queue.Queue[_Line] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def write(self, event: str, **facts: object) -> None:
        """Appends a line and waits for it; must not be called from the event loop."""
        try:
            self._append(_line(event, facts))
        except OSError as exc:
            raise self._failed(exc.strerror or str(exc)) from exc

    async def record(self, event: str, **facts: object) -> None:
        """Append a line within the deadline; raises if that fails."""
        done: Future[None] = Future()
        try:
            self._waiting.put_nowait((_line(event, facts), done))
        except queue.Full:
            raise self._failed("too many lines are waiting") from None
        self._start()
        try:
            await asyncio.wait_for(asyncio.wrap_future(done), self._deadline)
        except TimeoutError:
            raise self._failed(f"no response within {self._deadline:g} s") from None
        except OSError as exc:
            raise self._failed(exc.strerror or str(exc)) from exc

    def _start(self) -> None:
        """Starts the thread as a daemon: a hanging disk must not keep the server from stopping."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="andon audit", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        while True:
            line, done = self._waiting.get()
            if not done.set_running_or_notify_cancel():
                continue  # its request has already failed with a timeout
            try:
                self._append(line)
            except OSError as exc:
                done.set_exception(exc)
            else:
                done.set_result(None)

    def _append(self, line: bytes) -> None:
        """Open the file for each line, so that logrotate may move it."""
        with self._lock:
            if self._size() + len(line) > self._most_bytes:
                self.path.replace(self.earlier)
            descriptor = open_regular(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                _write_whole(descriptor, line)
            finally:
                os.close(descriptor)

    def _size(self) -> int:
        try:
            return self.path.lstat().st_size
        except FileNotFoundError:
            return 0

    def _failed(self, reason: str) -> Unavailable:
        hint = f"nothing was changed; check {self.path} and the free space on its disk"
        return Unavailable(f"the audit log cannot be written: {reason}", hint=hint)


def _line(event: str, facts: dict[str, object]) -> bytes:
    return (json.dumps({"at": round(time.time(), 3), "event": event, **facts}) + "\n").encode()


def _write_whole(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if os.write(descriptor, line) != len(line):
        os.ftruncate(descriptor, size)  # a partial line would corrupt the next one
        raise OSError(28, "No space left on device")
