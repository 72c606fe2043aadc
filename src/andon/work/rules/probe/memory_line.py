"""Memory over size as a straight line, from trials that are well below the card's memory."""

from collections.abc import Iterable

from andon.model.probe import MemoryLine, Trial, TrialState

BELOW = 0.8
"""Of the card's memory. Above it allocators begin to reuse and to give back, and the line bends."""
FEWEST_SIZES = 2


def memory_line(
    trials: Iterable[Trial], total_bytes: int | None
) -> tuple[MemoryLine | None, str | None]:
    """The line of least squares, or why there is none."""
    if not total_bytes:
        return None, "the memory of the device is unknown"
    points = [
        (trial.size, trial.peak_memory_bytes)
        for trial in trials
        if trial.state is TrialState.FITS
        and trial.peak_memory_bytes is not None
        and trial.peak_memory_bytes < BELOW * total_bytes
    ]
    if len({size for size, _ in points}) < FEWEST_SIZES:
        return None, f"fewer than {FEWEST_SIZES} sizes were measured below {BELOW:.0%} of the card"
    middle = sum(size for size, _ in points) / len(points)
    mean = sum(used for _, used in points) / len(points)
    spread = sum((size - middle) ** 2 for size, _ in points)
    slope = sum((size - middle) * (used - mean) for size, used in points) / spread
    if slope <= 0:
        return None, "memory did not grow with the size"
    return MemoryLine(mean - slope * middle, slope, len(points)), None
