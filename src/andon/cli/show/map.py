"""The sentences and the terminal of `andon map`."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from andon.cli.screen import in_color, size
from andon.cli.show.cells import bar
from andon.cli.show.text import Text, styled
from andon.cli.terminal import Choices, notice, write
from andon.leases.rules.environment import NO_GPU
from andon.model.run.record import ItemState
from andon.units import and_more, counted, fixed, human_seconds, measured_seconds
from andon.work.map.calls import CallEnd
from andon.work.map.session import MapProgress, MapResult
from andon.work.rules.map.plan import MapUnit
from andon.work.rules.map.scaling import ScalingStep, efficiency, held_back_by

BAR_WIDTH = 20
MOST_NAMED = 8


def progress_line(progress: MapProgress) -> Text:
    """`42/120 ━━━━━─── 35 %  3.1/s  about 25 s left  GPU 0, 1  1 failed`."""
    share = 100 * progress.ended / progress.total if progress.total else 100.0
    head = styled(f"{progress.ended}/{progress.total} ")
    line = head + bar(share, BAR_WIDTH, "green") + styled(f" {fixed(share)} %")
    for part in _parts(progress):
        line += styled("  ") + part
    return line


def progress_text(progress: MapProgress) -> str:
    """Returns the same progress for output that is not a terminal."""
    share = 100 * progress.ended / progress.total if progress.total else 100.0
    parts = [f"{progress.ended} of {progress.total} items ({fixed(share)} %)"]
    return ", ".join([*parts, *(part.plain for part in _parts(progress))])


def _parts(progress: MapProgress) -> list[Text]:
    parts = []
    if progress.per_second is not None:
        parts.append(styled(rate(progress.per_second)))
    if progress.left_seconds is not None and progress.ended < progress.total:
        parts.append(styled(f"about {human_seconds(progress.left_seconds + 0.5)} left"))
    if progress.workers:
        parts.append(styled(where(progress.workers), "dim"))
    if progress.failed:
        parts.append(styled(f"{progress.failed} failed", "red"))
    return parts


def summary_text(result: MapResult) -> str:
    """`117 of 120 items done in 39 s on GPU 0, 1 (3.1/s); 1 failed; 2 not begun: …`."""
    progress = result.progress
    text = f"{progress.done} of {progress.total} items done in {measured_seconds(progress.seconds)}"
    text += f" on {where(result.used)}" if result.used else ""
    if progress.done and progress.seconds > 0:
        text += f" ({rate(progress.done / progress.seconds)})"
    if progress.failed:
        text += f"; {progress.failed} failed"
    rest = progress.total - progress.ended
    why = f": {progress.stopped}" if progress.stopped else ""
    return f"{text}; {rest} not begun{why}" if rest else text


def where(labels: Sequence[str]) -> str:
    """`GPU 0, 1 (4 workers)`, `3 workers without a GPU`; on a cluster `GPU n1:0, n2:0`, or the
    names of machines or of the cluster where no GPU is known."""
    found = sorted(set(labels), key=_order)
    if found == [NO_GPU]:
        return f"{counted(len(labels), 'worker')} without a GPU"
    names = ", ".join(found[:MOST_NAMED]) + (", …" if len(found) > MOST_NAMED else "")
    several = f" ({len(labels)} workers)" if len(labels) > len(found) else ""
    known = all(label[:1].isdecimal() or ":" in label for label in found)
    return f"GPU {names}{several}" if known else f"{names}{several}"


def _order(label: str) -> tuple[int, str]:
    head = label.partition(",")[0].partition(":")[0]
    return (int(head) if head.isdecimal() else 0), label


def rate(per_second: float) -> str:
    """Items a second, or a minute where that is more readable."""
    if per_second >= 1:
        return f"{fixed(per_second, 1)}/s"
    return f"{fixed(per_second * 60, 1)}/min"


def scaling_lines(steps: Sequence[ScalingStep]) -> list[Text]:
    """A row for each number of workers."""
    lines = [styled(" WORKERS   ITEMS/S  EFFICIENCY  GPU BUSY  CPU", "bold")]
    for step in steps:
        share = efficiency(step, steps[0])
        lines.append(
            styled(
                f"{step.workers:>8}  {step.per_second:>8.2f}"
                f"  {_percent(None if share is None else 100 * share):>10}"
                f"  {_percent(step.utilization_percent):>8}  {_percent(step.cpu_percent):>5}"
            )
        )
    if (why := held_back_by(steps)) is not None:
        lines.append(styled(why))
    return lines


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{fixed(value)} %"


DRAW_SECONDS = 0.2
REPEAT_SECONDS = 30.0  # where there is no terminal


class MapScreen:
    """Prints the output of each item as a whole; with `keep_order` in the order of the items."""

    def __init__(
        self, choices: Choices, keep_order: bool, draw_seconds: float = DRAW_SECONDS
    ) -> None:
        self._choices, self._keep_order = choices, keep_order
        self._live = sys.stderr.isatty() and not choices.quiet
        self._pause_seconds = draw_seconds if self._live else REPEAT_SECONDS
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
        """Sets the numbers of the items in their order."""
        self._order = list(reversed(order))

    def tick(self, progress: MapProgress) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._drawn < self._pause_seconds:
                return
            self._drawn = now
            if self._live:
                width = size()[0] - 1
                self._line = progress_line(progress).fit(width).paint(self._color)
                self._draw()
            else:
                notice(progress_text(progress), self._choices)

    def print_line(self, text: str) -> None:
        """Prints a message of andon above the progress line."""
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
                item = unit.items[0].shown + and_more(len(unit.items) - 1)
                notice(f"item {item}: {end.reason}{again}", self._choices)
            self._draw()

    def close(self) -> None:
        """Prints the outputs that still wait for their turn, and removes the progress line."""
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
            except BrokenPipeError:  # the reader of our output has closed it
                self._closed = True

        return write_all

    def _draw(self) -> None:
        """Draws the progress line again below what was printed over it."""
        if self._line:
            self._clear()
            write(sys.stderr, self._line)
            self._shown = True

    def _clear(self) -> None:
        """Moves to an empty line: removes the progress, or ends an output that has no newline."""
        if self._shown or self._unended:
            write(sys.stderr, "\r\x1b[K" if self._shown else "\n")
            self._shown = self._unended = False
