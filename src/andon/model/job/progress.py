"""How far a program has come, by its own output."""

from msgspec import Struct

from andon.units import human_seconds


class WorkProgress(Struct, frozen=True):
    """The latest step that a program reported, and what follows from the time it took."""

    step: int
    total: int
    label: str = ""  # what is counted, or the name of its bar: "epoch 3/10"
    rate: float | None = None  # steps per second
    expected_end: float | None = None

    def words(self, now: float) -> str:
        """`450/1000 (45 %), epoch 3/10, 12 min left`; a time that is over is not mentioned."""
        text = f"{self.step}/{self.total} ({100 * self.step // self.total} %)"
        text += f", {self.label}" if self.label else ""
        if self.expected_end is None or self.expected_end < now or self.step == self.total:
            return text
        return f"{text}, {human_seconds(self.expected_end - now)} left"
