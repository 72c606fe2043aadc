"""Measures the steps of a training loop and its waiting for data; times are passed in."""

from collections.abc import Mapping, Sequence
from typing import Any

PREFIX = "andon/"
TRACKED_BY_OTHERS = frozenset({"utilization_percent", "memory_peak_bytes"})
"""What trackers with a system monitor of their own record too."""


class StepClock:
    """Counts steps and the time waited: from the end of a step to the start of the next.

    Numbers tell steps apart: a framework may report the end of a step after the next has begun,
    and a callback that is listed twice reports each twice.
    """

    def __init__(self) -> None:
        self.steps = self.samples = self.tokens = 0
        self.waited_seconds = self._counted = 0.0
        self._since: float | None = None  # None while nothing counts, as during validation
        self._ended: float | None = None
        self._begun: object = None
        self._last: object = None

    @property
    def untouched(self) -> bool:
        return not self.steps and self._since is None

    def begin(self, at: float, number: object) -> None:
        if self._ended is not None:
            self.waited_seconds += max(0.0, at - self._ended)
        self._since = at if self._since is None else self._since
        self._begun, self._ended = number, None

    def end(self, at: float, number: object) -> bool:
        """Returns whether this is the end of a step, and not its repetition."""
        if number == self._last:
            return False
        self._last = number
        self.steps += 1
        self._ended = at if number == self._begun else None
        return True

    def interrupt(self, at: float) -> None:
        """Stops the clock while the loop does something other than training, until `resume`."""
        self._counted, self._since, self._ended = self.seconds(at), None, None

    def resume(self, at: float) -> None:
        """Continues the clock: from now on the loop waits for its next batch."""
        self._since = at if self._since is None else self._since
        self._ended = at

    def seconds(self, at: float) -> float:
        """Returns the training time, including waiting."""
        return self._counted + (0.0 if self._since is None else max(0.0, at - self._since))

    def waiting_share(self, at: float) -> float | None:
        seconds = self.seconds(at)
        return min(1.0, self.waited_seconds / seconds) if self.steps and seconds > 0 else None


class StepRates:
    """Steps, samples and tokens per second since the last call."""

    def __init__(self) -> None:
        self._before = (0.0, 0, 0, 0)

    def take(self, clock: StepClock, at: float) -> dict[str, float]:
        now = (clock.seconds(at), clock.steps, clock.samples, clock.tokens)
        seconds, *made = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        names = ("steps_per_second", "samples_per_second", "tokens_per_second")
        if seconds <= 0:
            return {}
        return {name: n / seconds for name, n in zip(names, made, strict=True) if n > 0}


def size_of(batch: Any) -> tuple[int, int]:
    """Returns the samples and tokens of a batch, 0 if unknown. Called at each step: it reads the
    shape of one tensor and nothing else."""
    try:
        get, ids = getattr(batch, "get", None), None
        if get is not None:
            ids = getattr(get("input_ids"), "shape", None)
            parts = batch.values()
        else:
            parts = batch if isinstance(batch, list | tuple) else (batch,)
        shape = ids or next(filter(None, (getattr(one, "shape", None) for one in parts)), None)
        return int(shape[0]) if shape else 0, ids[0] * ids[1] if ids and len(ids) == 2 else 0
    except Exception:  # noqa: BLE001 - the program's own class
        return 0, 0


def shapes_of(batch: Any) -> dict[str, list[int]]:
    """Returns the shapes of a batch's tensors by their names or places."""
    named = batch.items() if isinstance(batch, Mapping) else enumerate(_parts(batch))
    return {str(name): list(shape) for name, one in named if (shape := _shape(one))}


def _parts(batch: Any) -> Sequence[Any]:
    if isinstance(batch, Mapping):
        return list(batch.values())
    return batch if isinstance(batch, list | tuple) else [batch]


def _shape(value: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in value.shape)
    except Exception:  # noqa: BLE001 - the program's own class
        return ()


def tracked_values(
    used: Sequence[Mapping[str, Any]], waiting_share: float | None, alerts: int
) -> dict[str, float]:
    """Returns trackers' values by name: over all devices together, without unknown ones."""
    from andon.model.run.use import known_of, mean_of, sum_of  # once a run goes on

    found = {
        "throttle_share": mean_of(used, "throttle_share"),
        "energy_joules": sum_of(used, "energy_joules"),
        "waiting_share": waiting_share,
        "memory_peak_bytes": max(known_of(used, "peak_memory_bytes"), default=None),
        "alerts_firing": float(alerts) if used else None,
        "utilization_percent": mean_of(used, "utilization_percent"),
    }
    return {name: float(value) for name, value in found.items() if value is not None}
