"""Reads the figures that jobs print, from the bytes that were added to their output."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from andon.errors import AndonError, Invalid
from andon.host.files import open_regular, read_text
from andon.jobs.folder import write_whole
from andon.jobs.rules.metrics import TRIALS, StopRule, compiled, found_in, parse_stop
from andon.model.job.cluster import ClusterTask
from andon.model.job.spec import JobSpec
from andon.model.run.record import RunEvent, RunLine, RunLogged
from andon.runs.follower import RecordFollower
from andon.units import whole_number

PLACE = "metrics"  # beside the output: how much of it was read
PIECE_BYTES = 1 << 20
MOST_VALUES = 200  # of one read; the last ones are kept
MATCH_SECONDS = 0.2
TRIAL_SECONDS = 0.3
T = TypeVar("T")


class _TooLong(Exception):
    pass


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Interrupts a match that takes too long: Python's matcher looks for signals, which only the
    main thread gets; elsewhere there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(number: int, frame: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def within(seconds: float, call: Callable[[], T]) -> T | None:
    """Returns what the call returns; None if it took too long."""
    with suppress(_TooLong), _time_limit(seconds):
        return call()
    return None


def refuse_slow(metrics: Mapping[str, str]) -> None:
    """Refuses a pattern that takes too long on some lines: it would on the job's output."""
    for name, pattern in metrics.items():
        one = {name: compiled(name, pattern)}
        lines = [*TRIALS, *(f"{name}={line}" for line in TRIALS)]
        if within(TRIAL_SECONDS, partial(found_in, lines, one)) is None:
            raise Invalid(
                f"the pattern of {name} takes too long on a line of 2,000 characters",
                hint=r"avoid a repeated group that repeats itself, such as (\d+)+",
            )


def printed_lines(
    found: Sequence[Mapping[str, float]] | None, patterns: Iterable[str], at: float
) -> list[RunLine]:
    """Returns the record lines for the figures that were found: the last ones; what is no finite
    number is a gap. None in place of figures means that the patterns took too long."""
    if found is None:
        return [RunEvent(at, "--metric took too long", {"given up": ", ".join(patterns)})]
    return [RunLogged(at, values) for values in found[-MOST_VALUES:]]


class MetricReader:
    """The figures of one attempt; output that an earlier dispatcher read is not read again."""

    def __init__(self, spec: JobSpec | ClusterTask, output: Path, record: Path | None) -> None:
        self._spec, self._output, self._record = spec, output, record
        self._patterns = _patterns(spec.metrics)
        self._stop: StopRule | None = None
        with suppress(Invalid):  # it was checked when it was submitted
            self._stop = parse_stop(spec.stop_when) if spec.stop_when else None
        self._offset = self._noted = whole_number(read_text(output.parent / PLACE)) or 0
        self._follower: RecordFollower | None = None
        self.latest: dict[str, float] = {}

    def read(self, last: bool = False) -> list[RunLine]:
        """Returns the record lines for what was printed since the last call; `last` includes an
        incomplete last line."""
        if not self._patterns:
            return []
        lines, self._offset = _new_lines(self._output, self._offset, last)
        found = within(MATCH_SECONDS, lambda: found_in(lines, self._patterns)) if lines else []
        for values in found or ():
            self.latest |= values
        printed = printed_lines(found, self._patterns, time.time())
        if found is None:
            self._patterns = {}
        return printed

    def settle(self) -> None:
        """Stores how much has been read, once its lines are in the record."""
        if self._offset != self._noted:
            self._noted = self._offset
            with suppress(OSError):
                write_whole(self._output.parent, PLACE, str(self._offset), sync=False)

    def hopeless(self, ran_seconds: float) -> str | None:
        """Returns why the job is to be cancelled by its stop rule; None if it is not."""
        if self._stop is None:
            return None
        value = self.latest.get(self._stop.name)
        if value is None or self._stop.name not in self._spec.metrics:
            self._read_record()
            value = self.latest.get(self._stop.name)
        if value is None or not self._stop.met_by(value, ran_seconds):
            return None
        return self._stop.reason(value)

    def close(self) -> None:
        if self._follower is not None:
            self._follower.__exit__()

    def _read_record(self) -> None:
        """Reads the figure's values that the program logged itself."""
        if self._record is None:
            return
        with suppress(AndonError, OSError):
            self._follower = self._follower or RecordFollower(self._record, 1)
            while lines := self._follower.new():
                for line in lines:
                    if isinstance(line, RunLogged):
                        self.latest |= line.values


class MetricReaders:
    """The readers of all attempts that run."""

    def __init__(self) -> None:
        self._readers: dict[tuple[int, int], MetricReader] = {}

    def of(
        self, place: tuple[int, int], spec: JobSpec, output: Path, record: str | None
    ) -> MetricReader | None:
        """Returns the reader of an attempt; None if the job has no metrics and no stop rule."""
        if not spec.metrics and not spec.stop_when:
            return None
        if place not in self._readers:
            path = None if record is None else Path(record)
            self._readers[place] = MetricReader(spec, output, path)
        return self._readers[place]

    def drop(self, place: tuple[int, int]) -> None:
        if (found := self._readers.pop(place, None)) is not None:
            found.close()


def _patterns(metrics: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    found = {}
    for name, pattern in metrics.items():
        with suppress(Invalid):
            found[name] = compiled(name, pattern)
    return found


def _new_lines(path: Path, offset: int, last: bool) -> tuple[list[str], int]:
    """Returns the lines that were added, and where the next ones begin. An output that was
    shortened is read from its new end on."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < offset:
                return [], size
            file.seek(offset)
            data = file.read(PIECE_BYTES)
    except OSError:
        return [], offset
    ends = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
    if (last and offset + len(data) == size) or (not ends and len(data) == PIECE_BYTES):
        ends = len(data)
    text = data[:ends].decode(errors="replace").replace("\r", "\n")
    return [line for line in text.split("\n") if line], offset + ends
