"""A node's history, without the names of other users' programs."""

from collections.abc import Sequence

from andon.access.roles import Sight
from andon.history.rules.intervals import UsageInterval
from andon.node.port import NodePast
from andon.node.seen.sights import uses_seen_by


class SeenPast:
    """The recorded history as one caller may see it."""

    def __init__(self, past: NodePast, sight: Sight) -> None:
        self._past, self._sight = past, sight
        self.devices, self.history = past.devices, past.history
        self.throttle_shares, self.checks = past.throttle_shares, past.checks

    @property
    def recorded(self) -> bool:
        return self._past.recorded

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        return uses_seen_by(self._sight, self._past.usage(device, since, until))
