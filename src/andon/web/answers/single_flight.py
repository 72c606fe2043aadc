"""Expensive answers, computed once per snapshot for all callers."""

import threading
from collections.abc import Callable, Hashable

from andon.access.roles import Sight


class SingleFlight:
    """The last answer for each sight; concurrent callers wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: dict[Sight, tuple[Hashable, bytes]] = {}

    def answer(self, at: Hashable, sight: Sight, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            known = self._cache.get(sight)
            if known is None or known[0] != at:
                self._cache = {s: one for s, one in self._cache.items() if one[0] == at}
                known = self._cache[sight] = (at, make())
            return known[1]
