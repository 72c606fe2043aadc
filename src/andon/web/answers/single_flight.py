"""Computes an expensive answer once per snapshot for all callers."""

import threading
from collections.abc import Callable

from andon.access.roles import Sight
from andon.model.device import Snapshot


class SingleFlight:
    """The last answer for each sight; concurrent callers wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Sight, tuple[Snapshot, bytes]] = {}

    def answer(self, latest: Snapshot, sight: Sight, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            known = self._kept.get(sight)
            if known is None or known[0] is not latest:
                self._kept = {s: one for s, one in self._kept.items() if one[0] is latest}
                known = self._kept[sight] = (latest, make())
            return known[1]
