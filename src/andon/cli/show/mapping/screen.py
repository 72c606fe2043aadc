"""The terminal of `andon map`: whole outputs of items above one line of progress."""

import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

from andon.cli.show.mapping.words import progress_line, progress_words
from andon.cli.terminal import Choices, in_color, notice, size, write
from andon.model.run.record import ItemState
from andon.work.map.calls import CallEnd
from andon.work.map.session import MapProgress
from andon.work.rules.map.plan import MapUnit

DRAW_SECONDS = 0.2
REPEAT_SECONDS = 30.0  # where there is no terminal


class MapScreen:
    """Prints what items wrote, each whole; `keep_order` as the items are ordered."""

    def __init__(self, choices: Choices, keep_order: bool) -> None:
        self._choices, self._keep_order = choices, keep_order
        self._live = sys.stderr.isatty() and not choices.quiet
        self._color = in_color(choices.color or "auto", sys.stderr)
        self._lock = threading.Lock()
        self._shown = False
        self._line = ""  # of progress, as it was drawn last
        self._unended = False  # whether the terminal's last line has no end yet
        self._drawn = time.monotonic()
        self._closed = False
        self._waiting: dict[int, tuple[CallEnd, int]] = {}
        self._order: list[int] = []

    def expect(self, order: list[int]) -> None:
        """The numbers of the items in their order."""
        self._order = list(reversed(order))

    def tick(self, progress: MapProgress) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._drawn < (DRAW_SECONDS if self._live else REPEAT_SECONDS):
                return
            self._drawn = now
            if self._live:
                width = size()[0] - 1
                self._line = progress_line(progress).fit(width).paint(self._color)
                self._draw()
            else:
                notice(progress_words(progress), self._choices)

    def say(self, text: str) -> None:
        """One line of our own, above the progress."""
        with self._lock:
            self._clear()
            notice(text, self._choices)
            self._draw()

    def ended(self, unit: MapUnit, end: CallEnd, state: ItemState) -> None:
        with self._lock:
            if not self._keep_order:
                self._print(end)
            elif state is not ItemState.RETRY:
                self._waiting[unit.items[0].index] = end, len(unit.items)
                self._print_in_order()
            if state is not ItemState.OK:
                self._clear()
                again = "; it is tried again" if state is ItemState.RETRY else ""
                first, more = unit.items[0].shown, len(unit.items) - 1
                item = f"{first} and {more} more" if more else first
                notice(f"item {item}: {end.words}{again}", self._choices)
            self._draw()

    def close(self) -> None:
        """Print what still waits for its turn, and remove the line."""
        with self._lock:
            for index in sorted(self._waiting):
                self._print(self._waiting[index][0])
            self._waiting.clear()
            self._clear()
            self._line = ""

    def _print_in_order(self) -> None:
        while self._order and (found := self._waiting.pop(self._order[-1], None)) is not None:
            end, count = found
            del self._order[-count:]
            self._print(end)

    def _print(self, end: CallEnd) -> None:
        if end.output is None and end.errors is None:
            return
        self._clear()
        for output, stream in ((end.output, sys.stdout), (end.errors, sys.stderr)):
            if output is not None:
                output.copy_to(self._writer(stream))

    def _writer(self, stream: TextIO) -> Callable[[bytes], None]:
        seen = self._live and stream.isatty()

        def write_all(content: bytes) -> None:
            if self._closed:
                return
            try:
                stream.buffer.write(content)
                stream.flush()
                self._unended = seen and not content.endswith(b"\n")
            except BrokenPipeError:  # whoever reads our output has closed it
                self._closed = True

        return write_all

    def _draw(self) -> None:
        """The line of progress; again at once below what was printed over it."""
        if self._line:
            self._clear()
            write(sys.stderr, self._line)
            self._shown = True

    def _clear(self) -> None:
        """Begin a line of the terminal: without the progress, below an output that has no end."""
        if self._shown or self._unended:
            write(sys.stderr, "\r\x1b[K" if self._shown else "\n")
            self._shown = self._unended = False
