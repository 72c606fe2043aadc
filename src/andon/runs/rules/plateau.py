"""The memory that a device held for most of a run."""

from msgspec import Struct, field

from andon.model.run.use import MemoryPlateau

STEPS = 50  # a level is two per cent of the device's memory
LEAST_SHARE = 0.3  # a level that was held for less is no plateau


class _Level(Struct):
    since: float
    seconds: float = 0.0
    weighted: float = 0.0


class MemoryLevels(Struct):
    """The time spent at each level; without the size of the memory there are none."""

    total_bytes: int | None
    began: float
    seconds: float = 0.0
    levels: dict[int, _Level] = field(default_factory=dict)

    def add(self, at: float, used_bytes: int | None, seconds: float) -> None:
        if used_bytes is None or not self.total_bytes:
            return
        place = round(STEPS * used_bytes / self.total_bytes)
        level = self.levels.setdefault(place, _Level(max(0.0, at - self.began)))
        level.seconds += seconds
        level.weighted += seconds * used_bytes
        self.seconds += seconds

    def result(self) -> MemoryPlateau | None:
        held = max(self.levels.values(), key=lambda level: level.seconds, default=None)
        if held is None or not held.seconds or held.seconds < LEAST_SHARE * self.seconds:
            return None
        return MemoryPlateau(
            bytes=round(held.weighted / held.seconds),
            share=round(held.seconds / self.seconds, 4),
            since_seconds=round(held.since, 3),
        )
