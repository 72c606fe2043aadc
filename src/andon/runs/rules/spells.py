"""How long nothing ran on a device, and in how many spells."""

from msgspec import Struct

from andon.model.run.use import IdleSpells
from andon.model.utilisation import ZERO_READING

DRIVER, SAMPLES = "driver", "samples"
STEPS = {DRIVER: (1.0, 0.2), SAMPLES: (30.0, 1.0)}
"""By source: a longer gap between two readings is unknown, and after one a reading stands for this
many seconds."""


class IdleTime(Struct):
    """Takes readings of utilisation in their order; each stands for the time since the last one."""

    source: str
    idle_seconds: float = 0.0
    known_seconds: float = 0.0
    count: int = 0
    longest: float = 0.0
    spell: float = 0.0  # the one that goes on
    at: float | None = None

    def add(self, at: float, percent: float | None, since: float) -> None:
        """`since` is the begin of the run; older readings say nothing about it."""
        if at <= (since if self.at is None else self.at):
            return
        seconds = at - (since if self.at is None else self.at)
        longest, usual = STEPS[self.source]
        if seconds > longest:
            self.spell, seconds = 0.0, usual
        self.at = at
        if percent is None:
            self.spell = 0.0
            return
        self.known_seconds += seconds
        if percent > ZERO_READING:
            self.spell = 0.0
            return
        self.count += self.spell == 0.0
        self.spell += seconds
        self.idle_seconds += seconds
        self.longest = max(self.longest, self.spell)

    @property
    def share(self) -> float | None:
        return self.idle_seconds / self.known_seconds if self.known_seconds else None

    def spells(self, most_seconds: float) -> IdleSpells | None:
        """Returns the spells; None if utilisation was never known. None is longer than the run:
        the last reading may be of a moment after it, and one after a gap stands for a usual
        time."""
        if not self.known_seconds:
            return None
        mean = self.idle_seconds / self.count if self.count else 0.0
        return IdleSpells(
            count=self.count,
            mean_seconds=round(min(mean, most_seconds), 3),
            longest_seconds=round(min(self.longest, most_seconds), 3),
            source=self.source,
        )
