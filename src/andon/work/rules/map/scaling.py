"""How the throughput of a map grows with its devices, and what limits it."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.model.run.use import mean_of

BUSY_CPU_PERCENT = 90.0
BUSY_PERCENT = 85.0
POOR = 0.8


class ScalingStep(Struct, frozen=True):
    """The result of one round of `--scaling`."""

    workers: int
    done: int
    seconds: float
    utilization_percent: float | None = None  # mean of its devices
    cpu_percent: float | None = None  # mean of the node

    @property
    def per_second(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0


def step_of(
    workers: int,
    done: int,
    seconds: float,
    summary: Mapping[str, Mapping[str, Any]],
    node: Mapping[str, Mapping[str, Any]],
) -> ScalingStep:
    """Returns a round's step, with values from the end of its record."""
    cpu = node.get("cpu_percent", {}).get("mean")
    busy = mean_of(summary.values(), "utilization_percent")
    return ScalingStep(workers, done, seconds, busy, cpu)


def efficiency(step: ScalingStep, first: ScalingStep) -> float | None:
    """Returns 1 if twice the workers of the first round do twice as much."""
    if not first.per_second or not first.workers or not step.workers:
        return None
    return (step.per_second / step.workers) / (first.per_second / first.workers)


def held_back_by(steps: Sequence[ScalingStep]) -> str | None:
    """Returns what keeps the largest round from scaling, as far as measured; None if it scales."""
    if len(steps) < 2:
        return None
    last = steps[-1]
    share = efficiency(last, steps[0])
    if share is None or share >= POOR:
        return None
    lost = f"{last.workers} workers do {100 * share:.0f} % of what they could"
    if last.cpu_percent is not None and last.cpu_percent >= BUSY_CPU_PERCENT:
        return f"{lost}: the node's CPU is at {last.cpu_percent:.0f} %, so it feeds them too slowly"
    if last.utilization_percent is not None and last.utilization_percent >= BUSY_PERCENT:
        return (
            f"{lost}: the GPUs are {last.utilization_percent:.0f} % busy, so they share something"
        )
    if last.utilization_percent is not None:
        return (
            f"{lost}: the GPUs are only {last.utilization_percent:.0f} % busy; "
            "each item spends its time elsewhere, such as in loading or on the disk"
        )
    return f"{lost}; how busy the GPUs were is not known"
