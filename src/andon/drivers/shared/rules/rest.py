"""Decides when a card that may suspend is left alone, so that monitoring does not keep it awake."""

from typing import Final

from msgspec import Struct

from andon.failures.rules.backoff import doubled_seconds

IDLE_SECONDS: Final = 10.0
SUSPEND_SECONDS: Final = 60.0  # how long a released card may take to suspend
LONGEST_SECONDS: Final = 600.0


class RestState(Struct):
    """Whether one card rests; `now` is from a monotonic clock."""

    idle_since: float | None = None
    resting_since: float | None = None
    slept: bool = False
    tries: int = 0

    def saw(self, busy: bool, now: float) -> None:
        """Records a reading."""
        if busy:
            self.idle_since, self.tries = None, 0
        elif self.idle_since is None:
            self.idle_since = now

    def idle_long_enough(self, now: float) -> bool:
        """Whether it was idle long enough to be released."""
        return self.idle_since is not None and now - self.idle_since >= IDLE_SECONDS

    def release(self, now: float) -> None:
        self.resting_since, self.slept = now, False

    def leave_alone(self, suspended: bool, now: float) -> bool:
        """Whether the card must not be touched now.

        A card that slept and is awake again was woken by other work. One that never fell asleep is
        read again after a while, which doubles each time.
        """
        if suspended:
            self.slept = True
            self.resting_since = self.resting_since if self.resting_since is not None else now
            return True
        if self.resting_since is None:
            return False
        wait_seconds = doubled_seconds(self.tries, SUSPEND_SECONDS, LONGEST_SECONDS)
        if not self.slept and now - self.resting_since < wait_seconds:
            return True
        self.tries = 0 if self.slept else self.tries + 1
        self.idle_since = self.resting_since = None
        self.slept = False
        return False
