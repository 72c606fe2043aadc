"""A terminal that is redrawn in place, and left as it was found however the command ends."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any, Self

from andon.cli.screen import size
from andon.cli.show.text import without_commands
from andon.cli.terminal import write

try:
    import select
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
HOME, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
ENDS = ("SIGTERM", "SIGHUP", "SIGQUIT")


def is_capable() -> bool:
    """Whether the terminal moves its cursor on command."""
    known = "termios" in sys.modules  # not on Windows
    return known and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


class LiveScreen:
    """A context manager. What was on the screen scrolls up; the last picture stays."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._keyboard = _Keyboard()
        self._window = window()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(_ends_as_interrupt())
            stack.callback(self._keyboard.close)
            stack.enter_context(_stopping(self._leave, self._begin))
            stack.callback(self._leave)
            self._begin()
            self._keyboard.listen()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def size(self) -> tuple[int, int]:
        """Columns and lines now; the last column is left free, where terminals differ."""
        width, height = window()
        return max(1, width - 1), height

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the picture in one write: nothing is cleared before it is written over."""
        now = window()
        resized, self._window = now != self._window, now
        text = "".join(f"{without_commands(line)}{REST_OF_LINE}\r\n" for line in lines)
        # A window that became narrower has wrapped the old lines.
        clean = HOME + REST_OF_SCREEN if resized else HOME
        write(sys.stdout, f"{clean}{text}{REST_OF_SCREEN}")

    def _begin(self) -> None:
        """Scroll what is there out of the window rather than write over it."""
        self._keyboard.silence()
        write(sys.stdout, HIDE + "\n" * (window()[1] - 1))

    def _leave(self) -> None:
        with suppress(Exception):  # the terminal may be gone
            write(sys.stdout, SHOW)
        self._keyboard.restore()


def window() -> tuple[int, int]:
    """The size of the window itself, which COLUMNS and LINES do not change."""
    with suppress(OSError, ValueError):
        found = os.get_terminal_size(sys.stdout.fileno())
        if found.columns and found.lines:
            return found.columns, found.lines
    return size()


@contextmanager
def _ends_as_interrupt() -> Iterator[None]:
    """Signals that would end us at once end us as Ctrl-C does, then with their own code."""
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = {n: signal.signal(n, end) for name in ENDS if (n := getattr(signal, name, None))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            os.kill(os.getpid(), received[0])


@contextmanager
def _stopping(leave: Callable[[], None], begin: Callable[[], None]) -> Iterator[None]:
    """Ctrl-Z gives the terminal back as it was; `fg` takes it again."""

    def stop(number: int, frame: FrameType | None) -> None:
        leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        begin()

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


class _Keyboard:
    """Reads keys without echo, and reports q; does nothing where there is no keyboard."""

    def __init__(self) -> None:
        self._place = _keyboard()
        self._before: list[Any] | None = None
        self._done, self._wake = os.pipe()
        self._reader: threading.Thread | None = None

    def silence(self) -> None:
        if self._place is None:
            return
        with suppress(termios.error):
            self._before = termios.tcgetattr(self._place)
            quiet = termios.tcgetattr(self._place)
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._place, termios.TCSADRAIN, quiet)

    def restore(self) -> None:
        before, self._before = self._before, None
        if self._place is not None and before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._place, termios.TCSADRAIN, before)

    def listen(self) -> None:
        if self._place is not None:
            arguments = (self._place, self._done)
            self._reader = threading.Thread(target=_read_keys, args=arguments, daemon=True)
            self._reader.start()

    def close(self) -> None:
        os.close(self._wake)
        if self._reader is not None:
            self._reader.join(1.0)
        os.close(self._done)


def _keyboard() -> int | None:
    """Standard input, if it is this terminal's and we are in its foreground."""
    with suppress(OSError, ValueError, AttributeError):
        place = sys.stdin.fileno()
        if os.isatty(place) and os.tcgetpgrp(place) == os.getpgrp():
            return place
    return None


def _read_keys(keyboard: int, done: int) -> None:
    while True:
        ready = select.select([keyboard, done], [], [])[0]
        if done in ready:
            return
        try:
            typed = os.read(keyboard, 64)
        except OSError:
            return
        if not typed or b"q" in typed.lower():
            os.kill(os.getpid(), signal.SIGINT)
            return
