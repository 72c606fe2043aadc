"""A training loop that waits, or ends, when a GPU that it uses needs help.

for batch in andon.guarded(loader):                          # waits while it is too hot
for batch in andon.guarded(loader, action="stop"):           # ends the loop
for batch in andon.guarded(loader, action=save_checkpoint):  # calls, once per alert
"""

import logging
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, Literal, TypeVar

from andon.callbacks.cord import AlertFilter, Cord, this_node
from andon.errors import Invalid
from andon.model.alert import Alert, Level

T = TypeVar("T")
Action = Literal["pause", "stop"] | Callable[[Alert], object]

log = logging.getLogger("andon")

WAITING_HELPS = ("thermal", "throttle_thermal", "throttle_hardware", "fan")
"""What gets better by itself while the device rests."""
LONGEST_PAUSE_SECONDS = 300.0  # below the ten minutes after which NCCL gives up a collective


class Guard(Generic[T]):
    """Gives the batches one by one and looks at the alerts between them, in the loop's own thread.

    Where nothing can be read it gives the batches and nothing else: monitoring fails soft.
    """

    def __init__(
        self,
        batches: Iterable[T],
        cord: Cord,
        wanted: AlertFilter,
        action: Action = "pause",
        longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        if not callable(action) and action not in ("pause", "stop"):
            raise Invalid(f"{action!r} is no action", hint='"pause", "stop" or a function')
        self._batches, self._cord, self._wanted = batches, cord, wanted
        self._action, self._longest = action, longest_pause_seconds
        self._called: set[str] = set()
        self.alert: Alert | None = None  # the one that stopped it, or made it wait last
        self.stopped = False
        self.paused_seconds = 0.0

        self._finalizer = weakref.finalize(self, cord.stop)

    def __iter__(self) -> Iterator[T]:
        """May be asked for again, for the next epoch; a loop that was stopped stays so."""
        if self.stopped:
            return
        for batch in self._batches:
            if self._stops():
                return
            yield batch

    def close(self) -> None:
        """End the watching; it also ends when nobody holds the guard any more."""
        self._finalizer()

    def __len__(self) -> int:
        """As many as without a guard: progress bars ask."""
        return len(self._batches)  # type: ignore[arg-type]

    def _stops(self) -> bool:
        """Do what is asked for the worst alert that fires; whether the loop ends here."""
        firing = self._cord.firing(self._wanted)
        if not firing:
            return False
        self.alert = worst = firing[0]
        if callable(self._action):
            for alert in firing:
                if alert.id not in self._called:
                    self._called.add(alert.id)
                    self._action(alert)
            return False
        if self._action == "stop":
            self.stopped = True
            log.warning("the loop ends here: %s", worst.message)
            return True
        self._pause(worst)
        return False

    def _pause(self, alert: Alert) -> None:
        log.warning("the loop waits: %s", alert.message)
        began = time.monotonic()
        calm = self._cord.wait_until_calm(self._wanted, self._longest)
        lasted = time.monotonic() - began
        self.paused_seconds += lasted
        why = "it is over" if calm else "it still fires, and waiting longer may not help"
        log.warning("the loop goes on after %.0f s: %s", lasted, why)


def guarded(
    batches: Iterable[T],
    on: Level | str = Level.CRITICAL,
    action: Action = "pause",
    rules: Collection[str] | None = None,
    devices: Collection[int | str] | None = None,
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
    interval_seconds: float = 1.0,
) -> Guard[T]:
    """The batches, guarded: between two of them the loop waits (`"pause"`), ends (`"stop"`) or
    calls a function while an alert of this level fires on a device that this process can see.

    `rules` and `devices` (indices or uuids) narrow that down; a pause is by default for what gets
    better by waiting: heat.
    """
    if rules is None and action == "pause":
        rules = WAITING_HELPS
    wanted = AlertFilter(on, rules, devices)
    cord = this_node(wanted, interval_seconds)
    return Guard(batches, cord.start(), wanted, action, longest_pause_seconds)
