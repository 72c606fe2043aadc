"""Limits repeated messages to one a minute, with a count."""

from collections import OrderedDict
from collections.abc import Hashable

from msgspec import Struct

EVERY_SECONDS = 60.0
MOST_KINDS = 512


class _Kind(Struct):
    reported_at: float
    held_back: int = 0


class RepeatLimiter:
    """Counts by kind; the number of kinds is bounded: the one reported longest ago is dropped."""

    def __init__(self, every_seconds: float = EVERY_SECONDS, most_kinds: int = MOST_KINDS) -> None:
        self._every, self._most = every_seconds, most_kinds
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()

    def happened(self, kind: Hashable, now: float) -> int | None:
        """Counts a message; returns how often it happened since the last report, including now;
        None: do not report."""
        known = self._kinds.get(kind)
        if known is not None and now - known.reported_at < self._every:
            known.held_back += 1
            return None
        count = 1 if known is None else known.held_back + 1
        self._kinds[kind] = _Kind(now)
        self._kinds.move_to_end(kind)
        while len(self._kinds) > self._most:
            self._kinds.popitem(last=False)
        return count

    def due(self, now: float) -> list[tuple[Hashable, int]]:
        """Returns the kinds held back long enough, with their counts; they count as reported."""
        found = [
            (kind, known.held_back)
            for kind, known in self._kinds.items()
            if known.held_back and now - known.reported_at >= self._every
        ]
        for kind, _ in found:
            self._kinds[kind] = _Kind(now)
        return found

    @property
    def holds_back(self) -> bool:
        """Whether anything was held back that is not reported yet."""
        return any(known.held_back for known in self._kinds.values())
