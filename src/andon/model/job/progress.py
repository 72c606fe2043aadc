"""How far a program has come, by its own output."""

from msgspec import Struct

from andon.model.json_fields import (
    NAME,
    Json,
    number_in,
    some_text_in,
    some_time_in,
    whole_in,
)
from andon.units import human_seconds

_MOST = 2**53


class WorkProgress(Struct, frozen=True):
    """The latest step that a program reported, and what follows from the time it took."""

    step: int
    total: int
    label: str = ""  # what is counted, or the name of its bar: "epoch 3/10"
    rate: float | None = None  # steps per second
    expected_end: float | None = None

    def words(self, now: float) -> str:
        """`450/1000 (45 %), epoch 3/10, 12 min left`; a time that is over is not mentioned."""
        label = f", {self.label}" if self.label else ""
        return f"{self.step}/{self.total} ({self._share}){label}{self._left(now)}"

    def brief(self, now: float) -> str:
        """`45 %, 12 min left`."""
        return self._share + self._left(now)

    @property
    def _share(self) -> str:
        return f"{100 * self.step // self.total} %"

    def _left(self, now: float) -> str:
        if self.expected_end is None or self.expected_end < now or self.step == self.total:
            return ""
        return f", {human_seconds(self.expected_end - now)} left"


def progress_from_json(value: Json) -> WorkProgress:
    """Raises Wrong if it is none."""
    total = whole_in(value, "total", _MOST)
    return WorkProgress(
        step=whole_in(value, "step", total),
        total=max(1, total),
        label=some_text_in(value, "label", NAME) or "",
        rate=number_in(value, "rate", 0.0),
        expected_end=some_time_in(value, "expected_end"),
    )
