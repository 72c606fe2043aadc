"""Monitors andon itself: what sampling cost, missed and could not store in a few minutes."""

import time
from collections import deque
from collections.abc import Callable

from andon.alerts.rules.self_checks import WINDOW_SECONDS, SelfStats, StoreStats, troubles
from andon.explain.evidence.observation import OwnTrouble
from andon.sampling.sampler import Costs

LEAST_SECONDS = 5.0  # called at every sample, measured less often


class SelfMonitor:
    """Compares the oldest measurement of the window with the newest."""

    def __init__(
        self,
        costs: Callable[[], Costs],
        store: Callable[[], StoreStats],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._costs, self._store, self._clock = costs, store, clock
        self._measured: deque[SelfStats] = deque()
        self._found: tuple[OwnTrouble, ...] = ()

    def __call__(self) -> tuple[OwnTrouble, ...]:
        now = self._clock()
        if not self._measured or now - self._measured[-1].at >= LEAST_SECONDS:
            self._measured.append(self._measure(now))
            while now - self._measured[0].at > WINDOW_SECONDS:
                self._measured.popleft()
            self._found = troubles(self._measured[0], self._measured[-1])
        return self._found

    def _measure(self, now: float) -> SelfStats:
        costs = self._costs()
        return SelfStats(
            at=now,
            snapshots=costs.snapshots,
            missed=costs.missed,
            failed=costs.failed,
            cpu_seconds=costs.sampler_cpu_seconds,
            store=self._store(),
        )
