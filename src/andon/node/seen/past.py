"""A node's history, in which programs of others have no names."""

from collections.abc import Sequence

from andon.access.roles import Sight
from andon.history.rules.intervals import UsageInterval
from andon.node.seen.sights import uses_seen_by
from andon.node.watched.past import ServedPast


class SeenPast(ServedPast):
    """What was recorded, as one caller may see it."""

    def __init__(self, past: ServedPast, sight: Sight) -> None:
        super().__init__(past.store)
        self._sight = sight

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        return uses_seen_by(self._sight, super().usage(device, since, until))
