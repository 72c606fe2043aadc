"""How far a program has come, by its own output."""

from typing import Annotated

from msgspec import Meta, Struct

from andon.model.codec import Amount, Count, Name, Time
from andon.units import human_seconds


class WorkProgress(Struct, frozen=True):
    """The latest step that a program reported, and what follows from the time it took."""

    step: Count
    total: Annotated[int, Meta(ge=1, le=2**53)]
    label: Name = ""  # what is counted, or the name of its bar: "epoch 3/10"
    rate: Amount | None = None  # steps per second
    expected_end: Time | None = None

    def __post_init__(self) -> None:
        if self.step > self.total:
            raise ValueError(f"has step {self.step} of {self.total}")

    def text(self, now: float) -> str:
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
