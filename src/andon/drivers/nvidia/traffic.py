"""PCIe and NVLink traffic, computed from the driver's counters.

On real cards the PCIe counters have 32 bits: at 60 GB/s they wrap fifteen times a second. So
they are read twice in one reading, before and after its other calls, and the rate in between
shows how often they wrapped since the last reading. The driver's own rates are never read: those
calls sleep.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from andon.drivers.nvidia import nvml
from andon.drivers.nvidia.nvml import Handle, LinkCount
from andon.drivers.nvidia.tiers import TRAFFIC, DueTimes
from andon.drivers.nvidia.trouble import ErrorScope, survivable
from andon.host.rules.rates import FIRST, NARROW, steady_rate, wrapping_rate

TRAFFIC_SECONDS: Final = 60.0  # they take longer than all other calls of a reading together
TRAFFIC_FIRST_SECONDS: Final = 30.0  # a command that samples a few times does not pay for it
TRAFFIC_WATCHED_SECONDS: Final = 5.0
LONGEST_MOMENT_SECONDS: Final = 1.0  # by the driver's clock, which somebody may set
NOT_YET: Final = "read after 30 s, or while someone watches"
NO_MOMENT: Final = "the counter may have wrapped, and it is unknown how often"
_DUE: Final = "traffic"
_NONE: Final[Mapping[str, float]] = {}

Counts = list[LinkCount | nvml.Error]


class Traffic:
    """The rates of one card, each since the previous reading."""

    def __init__(
        self, counts: Callable[[Handle, Sequence[nvml.LinkField]], Counts] = nvml.counts
    ) -> None:
        self._counts = counts
        self.values: dict[str, int | None] = dict.fromkeys(TRAFFIC)
        self.missing: dict[str, str] = dict.fromkeys(TRAFFIC, NOT_YET)
        self.changes = 0
        """Increases whenever `missing` changes."""
        self._read_at = 0.0
        self._older: Mapping[str, float] | None = None
        self._fields = dict(nvml.TRAFFIC_FIELDS)
        self._due = DueTimes()
        self._begins: float | None = None
        self._before: dict[str, LinkCount] = {}
        self._before_now: float | None = None
        self._first: dict[str, LinkCount] | None = None

    def begin(self, handle: Handle, at: float, now: float, watched: bool) -> None:
        """Reads the counters if they are due; `finish` follows after the card's other calls."""
        self._first = None
        if self._begins is None:
            self._begins = now + TRAFFIC_FIRST_SECONDS
        if watched:
            self._begins = now
            self._due.hasten(_DUE, TRAFFIC_WATCHED_SECONDS, now)
        if now < self._begins:
            return
        period = TRAFFIC_WATCHED_SECONDS if watched else TRAFFIC_SECONDS
        if self._before_now is None:
            period = 0.0  # with the next reading there is a rate
        if not self._fields or not self._due.take(_DUE, period, now):
            return
        self._read_at, self._older = at, None
        self._first = self._read(handle, self._fields)

    def finish(self, handle: Handle, now: float) -> None:
        """Computes the rates since the last reading."""
        if self._first is None:
            return
        first, before = self._first, self._before
        seconds = 0.0 if self._before_now is None else now - self._before_now
        narrow = {
            name: self._fields[name]
            for name in nvml.WRAPPING
            if name in before and name in first and first[name].value < NARROW
        }
        moment = self._read(handle, narrow) if narrow else {}
        for name, count in first.items():
            if name in before:
                self._set(name, _rate(name, before[name], count, moment.get(name), seconds))
            else:
                self._set(name, FIRST)
        self._before, self._before_now = first, now

    def older(self, at: float) -> Mapping[str, float]:
        """Returns when each rate older than this was read: the same object until it changes."""
        if self._read_at >= at:
            return _NONE
        if self._older is None:
            known = (name for name, value in self.values.items() if value is not None)
            self._older = dict.fromkeys(known, self._read_at)
        return self._older

    def _read(self, handle: Handle, fields: dict[str, nvml.LinkField]) -> dict[str, LinkCount]:
        """Returns the counters that the driver gives; one that it never gives is not read again."""
        try:
            answers = self._counts(handle, list(fields.values()))
        except nvml.Error as error:
            answers = [error] * len(fields)
        found: dict[str, LinkCount] = {}
        for name, answer in zip(list(fields), answers, strict=True):
            if isinstance(answer, LinkCount):
                found[name] = answer
                continue
            trouble = survivable(answer)
            self._set(name, trouble.reason)
            if trouble.reach is ErrorScope.FOR_GOOD:
                self._fields.pop(name, None)
        return found

    def _set(self, name: str, found: int | str) -> None:
        if isinstance(found, str):
            self.values[name] = None
            if self.missing.get(name) != found:
                self.missing[name] = found
                self.changes += 1
            return
        self.values[name] = found
        if self.missing.pop(name, None) is not None:
            self.changes += 1


def _rate(
    name: str, before: LinkCount, count: LinkCount, later: LinkCount | None, seconds: float
) -> int | str:
    if name not in nvml.WRAPPING:
        return steady_rate(before.value, count.value, seconds)
    if max(before.value, count.value) >= NARROW:
        return wrapping_rate(before.value, count.value, seconds, 0.0)
    moment = 0.0 if later is None else later.at - count.at
    if later is None or not 0 < moment < LONGEST_MOMENT_SECONDS:
        return NO_MOMENT
    glimpse = (later.value - count.value) % NARROW / moment
    return wrapping_rate(before.value, count.value, seconds, glimpse)
