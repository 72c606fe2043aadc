"""A node's history, in which programs of others have no names."""

from collections.abc import Mapping, Sequence

from andon.access.roles import Sight
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Bucket
from andon.history.rules.usage import DayOf, Days
from andon.model.device import Device
from andon.node.seen.sights import uses_seen_by
from andon.node.watched.past import ServedPast


class SeenPast:
    """What was recorded, as one caller may see it."""

    def __init__(self, past: ServedPast, sight: Sight) -> None:
        self._past, self._sight = past, sight

    @property
    def recorded(self) -> bool:
        return self._past.recorded

    def devices(self) -> Sequence[Device]:
        return self._past.devices()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        return self._past.history(device, metric, since, until, points)

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        return uses_seen_by(self._sight, self._past.usage(device, since, until))

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], Mapping[str, list[float | None]]]:
        return self._past.throttle_shares(device, since, until, points)

    def used_by_day(self, since: float, until: float, day_of: DayOf) -> Days:
        return self._past.used_by_day(since, until, day_of)
