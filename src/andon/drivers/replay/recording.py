"""A file of snapshots, read only as far as it has been played; only offsets are kept."""

import contextlib
import re
import stat
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.model import wire, wire_in
from andon.model.device import Host, Snapshot
from andon.units import human_seconds, sh

LINE_BYTES = 64 << 20
"""The longest line that is read; eight devices with a hundred processes take 0.1 MB."""
VALID_INTERVALS = 2.0
"""How many intervals a snapshot stays valid."""
_HEAD_BYTES = 4096
_LONGEST_GAP_SECONDS = 1e9
_AT = re.compile(rb'"at": ?([0-9]{1,12}(?:\.[0-9]{1,9})?)[,}]')
ENDED = "the recording has ended"
HINT = "record one: andon watch --out gpus.jsonl, or: andon status --json > gpus.json"


class RecordedMoment(Struct, frozen=True):
    """The state of the recording at one moment of the replay."""

    snapshot: Snapshot
    offset_seconds: float
    """Time of this snapshot since the first one; it keeps counting in later rounds of a loop."""
    silence: str | None = None
    """Why the recording has nothing newer although it should."""


class Recording:
    """Opens with the first snapshot and reads on as it is played. Not thread-safe."""

    def __init__(self, path: str, loop: bool = False) -> None:
        self._path, self._loop = Path(path), loop
        self._offsets, self._places, self._lines = array("d"), array("q"), array("q")
        self._unreadable: dict[int, str] = {}  # by the snapshot before such a line
        self._line = 0
        self._latest = 0.0
        self._single: Snapshot | None = None
        self._load = lru_cache(maxsize=4)(self._read_snapshot)
        self._file = _open(self._path)
        try:
            self._begin()
        except OSError as exc:
            self._file.close()
            raise Unavailable(f"{path} cannot be read: {exc.strerror}", hint=HINT) from exc
        except BaseException:
            self._file.close()
            raise

    @property
    def first(self) -> Snapshot:
        return self._load(0)

    def at(self, elapsed_seconds: float) -> RecordedMoment:
        """Returns the latest snapshot after this many seconds of replay."""
        wanted, done = max(0.0, elapsed_seconds), 0.0
        ended = self._read_until(wanted)
        if ended and len(self._offsets) == 1 and not self._unreadable:
            return RecordedMoment(self._load(0), 0.0)  # a single snapshot has no end
        if ended and self._loop:
            round_seconds = self._offsets[-1] + self._distance(len(self._offsets) - 1)
            rounds, wanted = divmod(wanted, round_seconds)
            done = rounds * round_seconds
        index, snapshot, silence = self._readable(bisect_right(self._offsets, wanted) - 1)
        offset = self._offsets[index]
        silence = silence or self._silence(index, wanted - offset)
        return RecordedMoment(snapshot, done + offset, silence)

    def beside(self, elapsed_seconds: float, step: int) -> float:
        """Returns when the snapshot after (1) or before (-1) the current one was taken; at either
        end that of the current one."""
        self._read_until(elapsed_seconds)
        index = bisect_right(self._offsets, max(0.0, elapsed_seconds)) - 1 + step
        return self._offsets[max(0, min(len(self._offsets) - 1, index))]

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it never opened
            self._file.close()

    # Time.

    def _distance(self, index: int) -> float:
        """Returns the time to the nearer neighbour: the usual interval, also beside a gap."""
        around = self._offsets[max(0, index - 1) : index + 2]
        gaps = [later - earlier for earlier, later in pairwise(around)]
        return min((gap for gap in gaps if gap > 0), default=1.0)

    def _silence(self, index: int, age_seconds: float) -> str | None:
        if age_seconds <= VALID_INTERVALS * self._distance(index):
            return None
        if index in self._unreadable:
            return self._unreadable[index]
        if index + 1 == len(self._offsets):
            return ENDED
        gap = self._offsets[index + 1] - self._offsets[index]
        return f"the recording has a gap of {human_seconds(gap)} here"

    # The file.

    def _begin(self) -> None:
        """Reads the first snapshot, which shows the kind of file; a wrong one is an error."""
        line = self._file.readline(LINE_BYTES)
        if not line:
            raise Invalid(f"{self._path} is empty", hint=HINT)
        try:
            first = _snapshot(line)
        except Invalid as wrong:
            first = self._single = self._read_single(wrong)
        self._line = 1
        self._append(first.at, 0)

    def _read_single(self, wrong: Invalid) -> Snapshot:
        """Reads one snapshot over several lines, as `andon status --json` prints it."""
        self._file.seek(0)
        try:
            return _snapshot(self._file.read(LINE_BYTES))
        except Invalid:
            hint = wrong.hint or HINT
            raise Invalid(f"{self._path}, line 1: {wrong.reason}", hint=hint) from wrong

    def _read_until(self, wanted: float) -> bool:
        """Reads up to a time; returns whether the file ended first, which may grow later."""
        while self._offsets[-1] <= wanted:
            if not self._read_line():
                return True
        return False

    def _read_line(self) -> bool:
        """Reads one more line; False at the end, where an incomplete line does not count."""
        place = self._file.tell()
        line = self._file.readline(LINE_BYTES)
        whole = line.endswith(b"\n")
        at = _time_of(line, trusting=whole)
        if not whole and at is None:
            self._file.seek(place)
            return False
        self._line += 1
        if at is not None:
            self._append(at, place)
        elif line.strip():
            reason = f"line {self._line} of the recording is not a snapshot"
            self._unreadable.setdefault(len(self._offsets) - 1, reason)
        return True

    def _append(self, at: float, place: int) -> None:
        """Adds a snapshot; time may step back where one recording follows another."""
        latest = self._latest if self._offsets else at
        earlier = self._offsets[-1] if self._offsets else 0.0
        step = at - latest
        self._offsets.append(earlier + (step if 0 <= step <= _LONGEST_GAP_SECONDS else 0.0))
        self._places.append(place)
        self._lines.append(self._line)
        self._latest = at

    def _readable(self, index: int) -> tuple[int, Snapshot, str | None]:
        """Returns the snapshot; if it cannot be read, the one before it and the reason."""
        silence = None
        while True:
            try:
                return index, self._load(index), silence
            except Invalid as wrong:
                line = self._lines[index]
                silence = f"line {line} of the recording is not a snapshot: {wrong.reason}"
                index -= 1

    def _read_snapshot(self, index: int) -> Snapshot:
        if self._single is not None:
            return self._single
        position = self._file.tell()
        try:
            self._file.seek(self._places[index])
            return _snapshot(self._file.readline(LINE_BYTES))
        finally:
            self._file.seek(position)


class RecordedHost:
    """The recorded node's own values: a replay must not show this machine's."""

    def __init__(
        self,
        path: str,
        checked: Callable[[Host], Host],
        speed: float = 1.0,
        loop: bool = False,
        origin: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._recording, self._speed, self._clock = Recording(path, loop), speed, clock
        self._checked = checked
        self._origin = clock() if origin is None else origin

    @property
    def first(self) -> Snapshot:
        """Returns the first recorded snapshot: its node, its boot, its versions."""
        return self._recording.first

    def read(self) -> Host:
        with contextlib.suppress(AndonError):
            elapsed = (self._clock() - self._origin) * self._speed
            return self._checked(self._recording.at(elapsed).snapshot.host)
        return Host()

    def close(self) -> None:
        self._recording.close()


def _snapshot(line: bytes) -> Snapshot:
    try:
        return wire_in.snapshot_from_json(wire.loads(line, wire.ANSWER))
    except OverflowError as exc:
        raise Invalid(f"a number is too large: {exc}") from exc


def _time_of(line: bytes, trusting: bool) -> float | None:
    """Returns the time of a snapshot. Of a complete line only the start is read."""
    found = _AT.search(line[:_HEAD_BYTES]) if trusting and line.startswith(b"{") else None
    if found:
        return float(found[1])
    try:
        return _snapshot(line).at
    except Invalid:
        return None


def _open(path: Path) -> BinaryIO:
    """Opens only a regular file: a pipe would block."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise Invalid(f"{path} is not a file", hint=HINT)
        return path.open("rb")
    except FileNotFoundError as exc:
        raise Unavailable(f"{path}: no such file", hint=HINT) from exc
    except PermissionError as exc:
        raise Denied(f"{path}: no permission to read it", hint=f"ls -l {sh(path)}") from exc
    except (OSError, ValueError) as exc:
        raise Unavailable(f"{path} cannot be read: {exc}", hint=HINT) from exc
