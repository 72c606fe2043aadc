"""The energy of a run: the counter of the device from begin to end, and power where it has none."""

from dataclasses import dataclass

LONGEST_STEP_SECONDS = 30.0  # a longer gap between two readings of power is unknown
COUNTER, POWER = "counter", "power"


@dataclass(slots=True)
class EnergyMeter:
    """Takes the readings of one device in their order.

    Between two readings of the counter their difference counts; before the first, after the last,
    and where it went back, power is added up.
    """

    began: float
    total: float = 0.0
    pending: float = 0.0  # from power, since the counter was last read
    counted: bool = False
    powered: bool = False
    covered: bool = False  # whether readings of power stand for any of the time
    joules: float | None = None
    last: tuple[float, float] | None = None  # time and watts

    def add(self, at: float, watts: float | None, joules: float | None) -> None:
        at = max(at, self.began)
        self._add_power(at, watts)
        if joules is None:
            return
        if self.joules is not None and joules >= self.joules:
            self.total += joules - self.joules
            self.counted = True
        else:
            self.total += self.pending
        self.joules, self.pending = joules, 0.0

    def _add_power(self, at: float, watts: float | None) -> None:
        if watts is None:
            self.last = None
            return
        since, before = self.last or (at if self.powered else self.began, watts)
        if 0 <= at - since <= LONGEST_STEP_SECONDS:
            self.pending += (at - since) * (watts + before) / 2
            self.covered |= at > since
        self.last, self.powered = (at, watts), True

    def pause(self) -> None:
        """What follows does not continue what was read before."""
        self.total, self.pending = self.total + self.pending, 0.0
        self.joules = self.last = None

    def until(self, end: float) -> float | None:
        """The joules up to the end; None where no reading stands for any of the time."""
        since, watts = self.last or (end, 0.0)
        rest = end - since
        has_tail = 0 < rest <= LONGEST_STEP_SECONDS
        if not self.counted and not self.covered and not has_tail:
            return None
        return self.total + self.pending + (rest * watts if has_tail else 0.0)

    @property
    def source(self) -> str | None:
        if self.counted:
            return COUNTER
        return POWER if self.powered else None
