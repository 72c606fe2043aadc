"""Takes andon's own pulse: what a few minutes of looking cost, missed and could not keep."""

import time
from collections import deque
from collections.abc import Callable

from andon.core.alerting import OwnTrouble
from andon.core.sampling.self_checks import WINDOW_SECONDS, SelfStats, StoreStats, troubles
from andon.engine.sampling.sampler import Costs

LEAST_SECONDS = 5.0  # asked at every look, felt less often


class SelfMonitor:
    """The oldest reading of the window against the newest."""

    def __init__(self, costs: Callable[[], Costs], store: Callable[[], StoreStats]) -> None:
        self._costs, self._store = costs, store
        self._felt: deque[SelfStats] = deque()
        self._found: tuple[OwnTrouble, ...] = ()

    def __call__(self) -> tuple[OwnTrouble, ...]:
        now = time.monotonic()
        if not self._felt or now - self._felt[-1].at >= LEAST_SECONDS:
            self._felt.append(self._feel(now))
            while now - self._felt[0].at > WINDOW_SECONDS:
                self._felt.popleft()
            self._found = troubles(self._felt[0], self._felt[-1])
        return self._found

    def _feel(self, now: float) -> SelfStats:
        costs = self._costs()
        return SelfStats(
            at=now,
            snapshots=costs.snapshots,
            missed=costs.missed,
            failed=costs.failed,
            cpu_seconds=costs.sampler_cpu_seconds,
            store=self._store(),
        )
