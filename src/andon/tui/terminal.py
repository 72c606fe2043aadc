"""The terminal before and after Textual: the first picture, and its state restored at any end."""

import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from andon.cli.show.text import Text, without_commands

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
LEAVE = (
    "\x1b[?2026l"  # a synchronised update that was begun
    "\x1b[<u"  # the keyboard protocol of kitty
    "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"  # mouse
    "\x1b[?2004l\x1b[?2048l\x1b[?1004l"  # pasting, sizes in band, focus
    "\x1b[?7h\x1b[0m\x1b[?1049l\x1b[?25h"
)
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
GRACE_SECONDS = 1.0


class TerminalGuard:
    """Enters the alternate screen, and leaves it however top ends: Textual knows only SIGINT."""

    def __init__(self) -> None:
        self._input, self._output = sys.stdin.fileno(), sys.stdout.fileno()
        self._before = termios.tcgetattr(self._input)
        self._handlers: dict[int, Any] = {}
        self._stop: Callable[[], None] | None = None
        self._hook = threading.excepthook
        self._lock = threading.Lock()
        self._left = False
        self.ended_by: int | None = None
        self.failure: BaseException | None = None

    def enter(self) -> None:
        """Takes over the terminal; from here on every exit restores it."""
        self._handlers = {number: signal.signal(number, self._on_signal) for number in ENDS}
        threading.excepthook = self._on_thread_failure
        quiet = termios.tcgetattr(self._input)
        quiet[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self._input, termios.TCSANOW, quiet)
        self._write(ENTER)

    def paint(self, lines: Sequence[Text], color: bool) -> None:
        """Draws a picture without Textual, whose import takes too long for the first one."""
        rows = [without_commands(line.paint(color)) for line in lines]
        # Cleared before it is written: behind a full line the cursor stands on its last cell.
        self._write("".join(f"\x1b[{y};1H\x1b[K{row}" for y, row in enumerate(rows, 1)))

    def stops_by(self, stop: Callable[[], None]) -> None:
        """Sets the function that ends the running app; it may be called from any thread."""
        self._stop = stop

    def leave(self) -> None:
        """Restores the terminal as it was found; may be called twice."""
        with self._lock:
            if self._left:
                return
            self._left = True
            self._write(LEAVE)
            with suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSANOW, self._before)

    def close(self) -> None:
        """Restores the terminal and the signal handlers; sends again a signal that ended top."""
        self.leave()
        threading.excepthook = self._hook
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self.ended_by is not None:
            signal.signal(self.ended_by, signal.SIG_DFL)
            os.kill(os.getpid(), self.ended_by)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.ended_by = number
        self._end()

    def _on_thread_failure(self, failed: threading.ExceptHookArgs) -> None:
        """Ends top when a thread dies: the picture would otherwise look alive."""
        if self.failure is None:
            self.failure = failed.exc_value or failed.exc_type()
        self._end()

    def _end(self) -> None:
        """Ends the app, and the process within a second in any case."""
        threading.Thread(target=self._end_for_good, name="ending", daemon=True).start()
        if self._stop is not None:
            with suppress(RuntimeError):  # its loop has ended already
                self._stop()
        else:
            self._end_now()

    def _end_for_good(self) -> None:
        if not _left_within(self, GRACE_SECONDS):
            self._end_now()

    def _end_now(self) -> None:
        self.leave()
        if self.ended_by is not None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {self.ended_by})
            os._exit(128 + self.ended_by)
        if self.failure is not None:
            self._write(f"andon: {failure_text(self.failure)}\r\n")
        os._exit(1)

    @property
    def has_left(self) -> bool:
        return self._left

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            os.write(self._output, text.encode("utf-8", "replace"))


def _left_within(guard: TerminalGuard, seconds: float) -> bool:
    waited = threading.Event()
    for _ in range(int(seconds / 0.05)):
        if guard.has_left:
            return True
        waited.wait(0.05)
    return guard.has_left


def failure_text(failure: BaseException) -> str:
    """Returns one line for an unexpected error."""
    return f"top failed: {type(failure).__name__}: {failure}; please report it with andon version"
