"""Writes lines to a file through a process that may block, so that the caller never waits."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from andon.host.interpreter import isolated_command
from andon.host.state.user_folder import runs_folder
from andon.sampling.spawning import wait_for
from andon.standalone import STANDALONE

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PIPE_BYTES = 1 << 20
MOST_WAITING_BYTES = 1 << 20  # besides those in the pipe
CLOSE_SECONDS = 1.0
END = b"\0\n"


class LinePipe:
    """Writes one new file. Lines that its folder does not take in time are dropped and counted;
    an error is reported once and never stops the run. In a forked child it does nothing."""

    def __init__(self, path: Path, notify: Callable[[str], None]) -> None:
        self.path, self._notify = path, notify
        self.dropped = 0
        self.complete = False  # every line is in the file, and it is closed
        self._reported = False
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._waiting = b""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except OSError as exc:
            self._report(f"{exc.strerror}")

    def _start(self) -> None:
        lines, self._lines = os.pipe()
        try:
            self._answers, answers = os.pipe()
        except OSError:  # out of descriptors
            os.close(lines)
            os.close(self._lines)
            raise
        try:
            script, path = STANDALONE / "scribe.py", self.path.absolute()
            usual = ["usual"] if path.parent == runs_folder() else []
            self._process = subprocess.Popen(
                isolated_command(str(script), str(path), *usual),
                stdin=lines,
                stdout=answers,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C does not reach it
            )
        finally:
            os.close(lines)
            os.close(answers)
            if self._process is None:
                self._let_go()
        self._inodes = self._found()
        os.set_blocking(self._lines, False)
        os.set_blocking(self._answers, False)
        with suppress(OSError, AttributeError):  # not on every system, and a user has a quota
            fcntl.fcntl(self._lines, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    @property
    def writes(self) -> bool:
        """Whether there is a file, as far as is known."""
        return self.complete or (self._process is not None and not self._reported)

    def put(self, line: str) -> None:
        """Adds a line; never waits and never raises."""
        if os.getpid() != self._pid:  # before the lock: another thread may have held it at the fork
            return
        with self._lock:
            if self._process is None or self._is_lost():
                return
            self._flush()
            data = line.encode(errors="replace")  # a name may have bytes that are no text
            if len(self._waiting) + len(data) > MOST_WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting += data
            self._flush()
            self._listen()

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Waits so long at most for the last lines; a blocked process is abandoned."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._process is None:
                return
            if self._is_lost():
                wait_for(self._process, seconds)
                self._process = None
                return
            end = time.monotonic() + seconds
            self._waiting += END
            self._drain(end)
            left = self._waiting.count(b"\n")
            wait_for(self._process, max(0.0, end - time.monotonic()))
            self._listen()
            code = self._process.poll()
            self.complete = code == 0
            if code is None:
                self.dropped += max(0, left - 1)
                self._report(f"its folder has not responded within {seconds:.0f} s")
            self._process = None
            self._let_go()

    def _is_lost(self) -> bool:
        """Whether the program has closed the pipes, as daemons do: their descriptors may now be
        files of its own, where nothing may be written."""
        with suppress(OSError):
            if self._found() == self._inodes:
                return False
        self._report("the program has closed its files")
        return True

    def _found(self) -> tuple[int, int]:
        return os.fstat(self._lines).st_ino, os.fstat(self._answers).st_ino

    def _drain(self, end: float) -> None:
        room = select.poll()
        room.register(self._lines, select.POLLOUT)
        while self._waiting and (left := end - time.monotonic()) > 0:
            room.poll(left * 1000)
            self._flush()

    def _flush(self) -> None:
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._lines, self._waiting) :]
        except BlockingIOError:
            return
        except OSError:  # it has ended, and says why
            self._waiting = b""

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            answers = os.read(self._answers, 4096).decode(errors="replace").splitlines()
            lost = [int(word) for word in answers if word.isdecimal()]
            self.dropped += sum(lost)
            for problem in answers:
                if not problem.isdecimal():
                    self._report(problem)

    def _report(self, problem: str) -> None:
        if not self._reported:
            self._reported = True
            self._notify(f"the run is not recorded: {self.path}: {problem}")

    def _let_go(self) -> None:
        for descriptor in (self._lines, self._answers):
            with suppress(OSError):
                os.close(descriptor)
