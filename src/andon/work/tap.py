"""Copies a command's stderr to our own, and keeps the end of it."""

import os
import select
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

from andon.host.interpreter import isolated_command
from andon.model.job.progress import WorkProgress
from andon.sampling.spawning import wait_for
from andon.standalone import STANDALONE
from andon.standalone.tee import HEAD_BYTES, SHOWN_BYTES

ANSWER_SECONDS = 60.0  # of one that was stopped; on a busy machine it takes its time


class Tap:
    """A tee between the command and our standard error; a terminal stays a terminal."""

    def __init__(self) -> None:
        questions, self._questions = os.pipe()
        self._answer, answer = os.pipe()
        source, self.entrance = _terminal() if os.isatty(2) else os.pipe()
        self._shown, self._lock = _memory(), threading.Lock()
        passed = [questions, answer, *([] if self._shown is None else [self._shown])]
        tee = STANDALONE / "tee.py"
        self._process = subprocess.Popen(
            isolated_command(str(tee), *map(str, passed)),
            stdin=source,
            stdout=subprocess.DEVNULL,
            pass_fds=passed,
            start_new_session=True,  # so that Ctrl-C does not reach it
        )
        for theirs in (source, questions, answer):
            os.close(theirs)

    def started(self) -> None:
        """Closes our copy of the command's end, so that the tee sees when the command closes it."""
        os.close(self.entrance)

    def recent(self) -> tuple[str, float]:
        """The last part of the output so far, and when it was written; empty if there is none."""
        with self._lock:
            if self._shown is None:
                return "", 0.0
            content = os.pread(self._shown, HEAD_BYTES + SHOWN_BYTES, 0)
            written = os.fstat(self._shown).st_mtime
        size, check = (int.from_bytes(content[at : at + 4], "little") for at in (0, 4))
        part = content[HEAD_BYTES : HEAD_BYTES + size]
        whole = zlib.crc32(part) == check  # else it was being written: it is read the next time
        return part.decode(errors="replace") if whole else "", written

    def tail(self) -> str:
        """Returns the end of the output, once the command has ended; its children may still
        write."""
        with suppress(OSError):  # it may have exited after answering
            os.write(self._questions, b"?")
        content = b"".join(self._pieces())
        with self._lock:
            shown, self._shown = self._shown, None
        for done in (self._questions, self._answer, *([] if shown is None else [shown])):
            os.close(done)
        wait_for(self._process, 0.1)
        return content.decode(errors="replace")

    def _pieces(self) -> Iterator[bytes]:
        """Yields pieces until the answer ends, or times out."""
        there = select.poll()
        there.register(self._answer, select.POLLIN)
        while there.poll(ANSWER_SECONDS * 1000) and (piece := os.read(self._answer, 65536)):
            yield piece


def _memory() -> int | None:
    """Opens a file that is on no disk; None if the system has none."""
    try:
        return os.memfd_create("andon stderr") if hasattr(os, "memfd_create") else None
    except OSError:
        return None


def _terminal() -> tuple[int, int]:
    """Opens a raw pseudo-terminal of the same size as ours."""
    import fcntl
    import pty
    import termios
    import tty

    source, entrance = pty.openpty()
    tty.setraw(entrance)
    with suppress(OSError):
        size = fcntl.ioctl(2, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(entrance, termios.TIOCSWINSZ, size)
    return source, entrance


# How far a command is, by its error output: bars of tqdm, Hugging Face and Lightning go there.


class PrintedProgress:
    """Parses progress from new output; called with each sample of a run."""

    def __init__(self, began: float) -> None:
        self._began, self._at = began, 0.0
        self._recent: Callable[[], tuple[str, float]] = lambda: ("", 0.0)
        self._latest: WorkProgress | None = None

    def follow(self, recent: Callable[[], tuple[str, float]]) -> None:
        """Sets `recent`, which returns the last part of the output, and when it was written."""
        self._recent = recent

    def __call__(self) -> WorkProgress | None:
        text, at = self._recent()
        if text and at != self._at:
            from andon.runs.rules.progress import progress_in, work_progress  # not every one prints

            shown, self._at = progress_in(text), at
            self._latest = None if shown is None else work_progress(shown, self._began, at)
        return self._latest
