"""An expensive answer, computed once per snapshot for all callers."""

import threading
from collections.abc import Callable

from andon.model.device import Snapshot


class SingleFlight:
    """The last answer with and without the token; concurrent callers wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[bool, tuple[Snapshot, bytes]] = {}

    def answer(self, latest: Snapshot, trusted: bool, make: Callable[[], bytes]) -> bytes:
        with self._lock:
            known = self._kept.get(trusted)
            if known is None or known[0] is not latest:
                known = self._kept[trusted] = (latest, make())
            return known[1]
