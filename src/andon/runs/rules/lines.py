"""Parses the lines of a record as its bytes arrive, each whole line once; keeps the latest ones."""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from andon.errors import Invalid
from andon.model.codec import Wrong
from andon.model.run.record import (
    MOST_LINE_BYTES,
    RunAlert,
    RunBegin,
    RunEnd,
    RunEvent,
    RunItem,
    RunLine,
    RunLogged,
    RunSample,
)
from andon.model.run.wire import line_from_json
from andon.model.wire import ANSWER, loads
from andon.runs.rules.curves import LoggedCurves

SAMPLE, LOGGED = b'{"event":"sample",', b'{"event":"log",'
"""How `line_to_text` begins these lines; one of another form is read like any line."""


class RecordLines(Struct):
    """Parses bytes as they are read; keeps an incomplete last line for the next call."""

    unreadable: int = 0
    first_problem: str | None = None  # of the first line that could not be read
    _rest: bytes = b""
    _skipping: bool = field(default=False)  # inside a line that is too long
    skipped: tuple[bytes, ...] = ()  # how lines begin that are not parsed: samples, most often

    def feed(self, data: bytes) -> Iterator[RunLine]:
        """Yields the lines that are complete now."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            if self._skipping:
                self._skipping = False
            elif line.startswith(self.skipped):
                continue
            elif line.strip() and (found := self._read(line)) is not None:
                yield found
        if len(self._rest) > MOST_LINE_BYTES:
            self._reject("a line is too long")
            self._rest, self._skipping = b"", True

    @property
    def is_partial(self) -> bool:
        """Whether the end of the file is half a line."""
        return bool(self._rest) or self._skipping

    def _read(self, line: bytes) -> RunLine | None:
        try:
            return line_from_json(loads(line, ANSWER))
        except (Wrong, Invalid, ValueError, RecursionError) as exc:
            self._reject(str(exc))
            return None

    def _reject(self, problem: str) -> None:
        self.unreadable += 1
        self.first_problem = self.first_problem or problem[:200]


Happening = RunEvent | RunItem | RunLogged | RunAlert


class RecentLines:
    """Keeps the latest `most` samples, and as many of the other lines."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.begin: RunBegin | None = None
        self.end: RunEnd | None = None
        self.curves = LoggedCurves(0.0)  # of what was read
        self.samples, self.happenings = deque[RunSample](maxlen=most), deque[Happening](maxlen=most)

    def add_all(self, lines: Iterable[RunLine]) -> None:
        for line in lines:
            self.add(line)

    def add(self, line: RunLine) -> None:
        match line:
            case RunBegin():
                self.begin = self.begin or line
            case RunEnd():
                self.end = line
            case RunSample():
                self.samples.append(line)
            case RunLogged():
                self.curves.add(line)
                self.happenings.append(line)
            case RunEvent() | RunItem() | RunAlert():
                self.happenings.append(line)

    @property
    def is_full(self) -> bool:
        return min(len(self.samples), len(self.happenings)) >= self.most

    @property
    def last_at(self) -> float | None:
        known = [*list(self.samples)[-1:], *list(self.happenings)[-1:], self.end or self.begin]
        return max((line.at for line in known if line is not None), default=None)
