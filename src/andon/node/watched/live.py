"""Readings that a server has: those of a sampler that it follows, or of a node's reports."""

from collections.abc import Callable, Hashable, Sequence

from andon.alerts.rules.lamps import lamps_of
from andon.model.alert import Alert
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.node.following import PolledSession
from andon.node.seen.texts import SnapshotTexts
from andon.sampling.sampler import Costs

Listen = Callable[[Callable[[Snapshot], object]], Callable[[], None]]


class ServedLive:
    """Fills LiveReadings; `latest` waits for no device."""

    def __init__(
        self,
        latest: Callable[[], Snapshot],
        minutes: Callable[[], Sequence[Snapshot]],
        interval_seconds: float,
        alerts: Callable[[], Sequence[Alert]],
        placed: Callable[[], Snapshot] | None = None,
        read_now: Callable[[], Snapshot] | None = None,
        minutes_key: Callable[[], Hashable | None] = lambda: None,
        newest: Callable[[], Snapshot] | None = None,
        costs: Callable[[], Costs | None] = lambda: None,
        listen: Listen = lambda _: lambda: None,
        mark_watched: Callable[[], None] = lambda: None,
    ) -> None:
        """`read_now` may block for a newer one. `minutes_key` says which snapshots `minutes`
        returns, where that reads more than memory. `newest` is the latest for those who are no
        reason for expensive readings, which `mark_watched` asks for; `costs` is what sampling
        costs. `listen` has a function called with every new snapshot, from any thread, until what
        it returns is called."""
        self._latest, self._read_now = latest, read_now or latest
        self._alerts, self.texts = alerts, SnapshotTexts()
        self.minutes, self.minutes_key = minutes, minutes_key
        self.interval_seconds, self.placed = interval_seconds, placed or latest
        self.newest, self.costs = newest or latest, costs
        self.listen, self.mark_watched = listen, mark_watched

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        return self._latest()

    def read(self, expensive_fields: bool = False) -> Snapshot:
        return self._read_now()

    def subscribe(self, interval_seconds: float, watching: bool = False) -> PolledSession:
        return PolledSession(self._read_now, self._read_now, interval_seconds)

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        return lamps_of(snapshot, list(self._alerts()))
