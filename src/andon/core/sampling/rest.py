"""When a card that may suspend is left alone, so that being watched does not keep it awake."""

from dataclasses import dataclass
from typing import Final

IDLE_SECONDS: Final = 10.0
SUSPEND_SECONDS: Final = 60.0  # how long a card that was let go of may take to fall asleep
LONGEST_SECONDS: Final = 600.0


@dataclass(slots=True)
class Rest:
    """One card's; `now` is an argument and only moves forward."""

    idle_since: float | None = None
    resting_since: float | None = None
    slept: bool = False
    tries: int = 0

    def saw(self, busy: bool, now: float) -> None:
        """After a reading."""
        if busy:
            self.idle_since, self.tries = None, 0
        elif self.idle_since is None:
            self.idle_since = now

    def tired(self, now: float) -> bool:
        """Idle for long enough to be let go of."""
        return self.idle_since is not None and now - self.idle_since >= IDLE_SECONDS

    def let_go(self, now: float) -> None:
        self.resting_since, self.slept = now, False

    def leave_alone(self, suspended: bool, now: float) -> bool:
        """Whether the card must not be touched now.

        One that has slept and is awake again was woken by somebody else's work. One that never fell
        asleep is looked at again after a while, each time a longer one.
        """
        if suspended:
            self.slept = True
            self.resting_since = self.resting_since if self.resting_since is not None else now
            return True
        if self.resting_since is None:
            return False
        patience = min(LONGEST_SECONDS, SUSPEND_SECONDS * 2.0 ** min(self.tries, 10))
        if not self.slept and now - self.resting_since < patience:
            return True
        self.tries = 0 if self.slept else self.tries + 1
        self.idle_since = self.resting_since = None
        self.slept = False
        return False
