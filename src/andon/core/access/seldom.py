"""What happens again and again is told once a minute, with how often it happened."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

EVERY_SECONDS = 60.0
MOST_KINDS = 512


@dataclass(slots=True)
class _Kind:
    told_at: float
    untold: int = 0


class Seldom:
    """Counts by kind; the kinds are bounded, and the one that was told longest ago is forgotten."""

    def __init__(self, every_seconds: float = EVERY_SECONDS, most_kinds: int = MOST_KINDS) -> None:
        self._every, self._most = every_seconds, most_kinds
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()

    def happened(self, kind: Hashable, now: float) -> int | None:
        """How often since it was told last, this time included; None where it is not told now."""
        known = self._kinds.get(kind)
        if known is not None and now - known.told_at < self._every:
            known.untold += 1
            return None
        count = 1 if known is None else known.untold + 1
        self._kinds[kind] = _Kind(now)
        self._kinds.move_to_end(kind)
        while len(self._kinds) > self._most:
            self._kinds.popitem(last=False)
        return count

    def due(self, now: float) -> list[tuple[Hashable, int]]:
        """What was held back and has waited long enough, with how often; it counts as told."""
        found = [
            (kind, known.untold)
            for kind, known in self._kinds.items()
            if known.untold and now - known.told_at >= self._every
        ]
        for kind, _ in found:
            self._kinds[kind] = _Kind(now)
        return found
