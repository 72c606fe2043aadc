"""The PromQL terms from which conditions build their queries."""

from collections.abc import Callable

from msgspec import Struct

from andon.model.thresholds import Thresholds

DEVICE = "instance, job, device, uuid"
HALF = 0.05  # of the last digit that is shown


class PromTerms(Struct, frozen=True):
    """The prefix of the metrics and the figures in force."""

    prefix: str
    figures: Thresholds

    def m(self, name: str) -> str:
        """The full name of a metric; whether it exists is checked where the file is written."""
        return f"{self.prefix}_{name}"

    def percent(self, part: str, whole: str) -> str:
        return f"100 * {self.m(part)} / {self.m(whole)}"

    def clock_loss(self) -> str:
        """How far the clock is below its maximum, in percent."""
        return f"100 * (1 - {self.m('gpu_sm_clock_hertz')} / {self.m('gpu_sm_clock_limit_hertz')})"

    def lost_clock(self, most: float, clear: float, fires: str) -> str:
        """Returns the query for a greater loss, until it is `clear` below that."""
        loss = self.clock_loss()
        return f"({loss} > {most:g} or ({loss} > {most - clear:g} and {fires}))"

    def reason(self, *reasons: str) -> str:
        """Returns the query for one of these throttle reasons within the last five seconds.

        Where scrapes are further apart than that, the latest one counts.
        """
        series = f'{self.m("gpu_throttle")}{{reason=~"{"|".join(sorted(reasons))}"}}'
        return f"(max by ({DEVICE}) (max_over_time({series}[5s]) or {series}) == 1)"

    def state(self, name: str) -> str:
        return f'max by ({DEVICE}) ({self.m("gpu_state")}{{state="{name}"}}) == 1'


Query = Callable[[PromTerms, str], str]
"""The query of a rung; the second argument selects the alert itself while it fires."""
LEASES_ARE_NO_METRIC = "who holds a device is not a metric yet"


def above(
    value: Callable[[PromTerms], str],
    least: Callable[[PromTerms], float],
    clear: float,
    strictly: bool = False,
) -> Query:
    """Returns the query for a value at or above a threshold, until it is `clear` below."""

    def query(t: PromTerms, fires: str) -> str:
        sign = ">" if strictly else ">="
        start, end = least(t), least(t) - clear
        if not strictly:
            start -= HALF
        return f"{value(t)} {sign} {start:g} or ({value(t)} > {end + HALF:g} and {fires})"

    return query
