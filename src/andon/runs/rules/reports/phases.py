"""The phases of a run on one device, from its series: idle before, at work, idle after."""

from collections.abc import Sequence

from msgspec import Struct

from andon.model.utilisation import BARELY_BUSY_PERCENT

LEAST_POINTS = 4


class Phases(Struct, frozen=True):
    """Seconds without work at the beginning and at the end, and how busy it was in between."""

    idle_before_seconds: float
    working_seconds: float
    idle_after_seconds: float
    busy_percent: float | None  # between the two


def phases_of(
    at: Sequence[float], busy: Sequence[float | None], duration: float | None
) -> Phases | None:
    """`at` are the beginnings of the spans; None where too little is known, or nothing ran."""
    known = [(time, value) for time, value in zip(at, busy, strict=True) if value is not None]
    working = [place for place, (_, value) in enumerate(known) if value > BARELY_BUSY_PERCENT]
    if len(known) < LEAST_POINTS or not working or duration is None:
        return None
    first, last = working[0], working[-1]
    begins = known[first][0] if first else 0.0
    ends = known[last + 1][0] if last + 1 < len(known) else max(duration, known[-1][0])
    inner = [value for _, value in known[first : last + 1]]
    return Phases(
        idle_before_seconds=begins,
        working_seconds=ends - begins,
        idle_after_seconds=max(0.0, duration - ends),
        busy_percent=sum(inner) / len(inner),
    )
