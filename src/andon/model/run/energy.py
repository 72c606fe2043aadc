"""The energy of a device over a span of time: by its counter where there is one, else by power."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

LONGEST_STEP_SECONDS = 30.0  # a longer gap between two readings of power is unknown
LEAST_COUNTED_SECONDS = 1.0
"""Cards update their counter about every 100 ms: readings that are closer together than this say
less than power and time do."""
LONGEST_BEFORE_SECONDS = 1.0  # a counter that was read earlier says nothing about the begin
COUNTER, POWER = "counter", "power"


class EnergyMeter(Struct):
    """Sums the energy of one device from its readings, in their order.

    Between two readings of the counter their difference counts; before the first, after the last,
    where it went back, and where they are too close together, power is added up.
    """

    began: float
    longest_step: float = LONGEST_STEP_SECONDS
    total: float = 0.0  # up to the first of the two readings of the counter
    pending: float = 0.0  # from power, since the counter was last read
    between: float = 0.0  # from power, between the two readings of the counter
    counted: bool = False
    covered: bool = False  # whether readings of power stand for any of the time
    powered: bool = False
    first: tuple[float, float] | None = None  # time and joules: the counter's readings
    latest: tuple[float, float] | None = None
    last: tuple[float, float] | None = None  # time and watts

    def add(self, at: float, watts: float | None, joules: float | None) -> None:
        if joules is not None and at < self.began:  # without what it used before the run
            early = self.began - at
            known = watts is not None and early <= LONGEST_BEFORE_SECONDS
            joules = joules + early * (watts or 0.0) if known else None
        at = max(at, self.began)
        self._add_power(at, watts)
        if joules is None:
            return
        if self.latest is None or joules < self.latest[1]:
            self._close()
            self.first = at, joules
        else:
            self.between += self.pending
            self.pending = 0.0
        self.latest = at, joules

    def _add_power(self, at: float, watts: float | None) -> None:
        if watts is None:
            self.last = None
            return
        since, before = self.last or (at if self.powered else self.began, watts)
        if 0 <= at - since <= self.longest_step:
            self.pending += (at - since) * (watts + before) / 2
            self.covered |= at > since
        self.last, self.powered = (at, watts), True

    def _difference(self, end: float | None = None) -> float | None:
        """Returns the joules by the counter; None if they cover too short a time."""
        if self.first is None or self.latest is None:
            return None
        known = self.latest[0] if end is None else min(end, self.latest[0])
        is_long = known - self.first[0] >= LEAST_COUNTED_SECONDS
        return self.latest[1] - self.first[1] if is_long else None

    def _close(self) -> None:
        """Ends the current interval; the next one begins with a new reading of the counter."""
        joules = self._difference()
        self.counted |= joules is not None
        self.total += (self.between if joules is None else joules) + self.pending
        self.pending = self.between = 0.0
        self.first = self.latest = None

    def pause(self) -> None:
        """Interrupts the measurement: later readings are not connected with earlier ones."""
        self._close()
        self.last = None

    def until(self, end: float) -> tuple[float, str] | None:
        """Returns the joules up to the end, and their source; None if no reading covers any of
        the time.

        What was read later, because a last reading takes a while, is subtracted again.
        """
        joules = self._difference(end)
        since, watts = self.last or (end, 0.0)
        rest = end - since
        if abs(rest) > self.longest_step:  # a gap, or the clock was set
            rest = 0.0
        if joules is None and not self.counted and not self.covered and rest <= 0:
            return None
        known = self.total + (self.between if joules is None else joules) + self.pending
        source = COUNTER if self.counted or joules is not None else POWER
        return max(0.0, known + rest * watts), source


def energy_source_of(used: Iterable[Mapping[str, Any]]) -> str | None:
    """Returns the source of a sum: an estimate if any device's value is one."""
    sources = [device.get("energy_source") for device in used]
    return next((one for one in (POWER, COUNTER) if one in sources), None)
