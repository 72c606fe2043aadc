"""A recorder whose store fails, and recovers."""

import time
from collections.abc import Callable

from andon.history.writer import Recorder
from andon.ports import Store
from andon.sampling.bus import Bus
from tests.support.history_parts import AT, snapshot


class Recording:
    """A real recorder over a store, and the ticks that the test gives it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._bus, self._now = Bus(), 0
        subscription = self._bus.subscribe(1.0, watching=False, size=5000)
        self.recorder = Recorder(lambda: self.store, subscription, flush_seconds=0.01)

    def tick(self) -> None:
        seen = snapshot(AT + self._now, utilization_percent=self._now % 100)
        self._bus.publish(seen, float(self._now))
        self._now += 1

    def fails_with(self, words: str) -> None:
        """Sampling goes on, health says why, and the ticks wait."""
        self.goes_on_until(lambda: words in (self.recorder.health().reason or ""))
        assert self.recorder.health().buffered_snapshots > 0

    def recovers(self) -> None:
        """By itself, and without a tick lost."""
        self.goes_on_until(lambda: self.recorder.health().ok)
        self.recorder.close()
        assert self.recorder.health().dropped_snapshots == 0

    def goes_on_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, f"it never came: {self.recorder.health()}"
            if self._now < 500:
                self.tick()
            time.sleep(0.005)

    @property
    def ticks(self) -> int:
        return self._now
