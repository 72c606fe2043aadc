"""A training loop that pauses or stops when an alert fires on one of its GPUs.

for batch in andon.guarded(loader):                          # pauses while it is too hot
for batch in andon.guarded(loader, action="stop"):           # stops the loop
for batch in andon.guarded(loader, action=save_checkpoint):  # calls it once per alert
"""

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Generic, Literal, TypeVar

from andon.callbacks.cord import AlertFilter, Cord, this_node
from andon.callbacks.loop_hook import LONGEST_PAUSE_SECONDS, LoopHook
from andon.errors import Invalid
from andon.explain.conditions.catalogue import BY_NAME
from andon.model.alert import Alert, Level

T = TypeVar("T")
Action = Literal["pause", "stop"] | Callable[[Alert], object]

WAITING_HELPS = (
    "thermal", "throttle_thermal", "throttle_hardware", "fan", "memory_heat", "power",
    "throttle_power",
)  # fmt: skip
"""What improves on its own while the device is idle: heat and power."""


class Guard(LoopHook, Generic[T]):
    """Yields the batches and checks the alerts between them, in the loop's own thread.

    If nothing can be read it only yields the batches: monitoring must not stop training.
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
            raise Invalid(f"{action!r} is not an action", hint='"pause", "stop" or a function')
        super().__init__(longest_pause_seconds)
        self._batches, self._cord, self._wanted, self._action = batches, cord, wanted, action
        self._called: set[str] = set()
        self.alert: Alert | None = None  # the one that stopped it, or paused it last
        self._finalizer = weakref.finalize(self, cord.stop)

    def __iter__(self) -> Iterator[T]:
        """The batches; may be iterated again for the next epoch. A stopped loop stays stopped."""
        if self.stopped:
            return
        for batch in self._batches:
            if self._stops():
                return
            yield batch

    def close(self) -> None:
        """Stops watching; this also happens when the guard is garbage-collected."""
        self._finalizer()

    def __len__(self) -> int:
        """Returns the length without a guard, for progress bars."""
        return len(self._batches)  # type: ignore[arg-type]

    def _stops(self) -> bool:
        """Pauses, stops or calls for the worst firing alert; returns whether the loop stops."""
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
            self._stop(worst.message)
            return True
        self._pause(
            worst.message,
            partial(self._cord.wait_until_calm, self._wanted),
            "the alert is resolved",
            "it is still firing; waiting longer may not help",
        )
        return False


def _pausing(rules: Collection[str] | None) -> Collection[str]:
    """Returns the rules for which a loop pauses; raises Invalid where a pause does not help."""
    if rules is None:
        return WAITING_HELPS
    useless = sorted(rule for rule in set(rules) - set(WAITING_HELPS) if rule in BY_NAME)
    if useless:
        raise Invalid(
            f"pausing does not help against {', '.join(useless)}",
            hint=f'action="stop" or a function; a pause helps for {", ".join(WAITING_HELPS)}',
        )
    return rules


def guarded(
    batches: Iterable[T],
    on: Level | str = Level.CRITICAL,
    action: Action = "pause",
    rules: Collection[str] | None = None,
    devices: Collection[int | str] | None = None,
    longest_pause_seconds: float = LONGEST_PAUSE_SECONDS,
    interval_seconds: float = 1.0,
    thresholds: Mapping[str, float | str] | None = None,
) -> Guard[T]:
    """The batches, guarded: between two of them the loop pauses (`"pause"`), stops (`"stop"`) or
    calls a function while an alert of this level is firing on a device visible to this process.

    `rules` and `devices` (indices or UUIDs) narrow that down; a pause is only for what improves
    by waiting, heat and power. `thresholds` as for `on_alert`.
    """
    if action == "pause":
        rules = _pausing(rules)
    wanted = AlertFilter(on, rules, devices)
    cord = this_node(wanted, interval_seconds, thresholds=thresholds)
    return Guard(batches, cord.start(), wanted, action, longest_pause_seconds)
