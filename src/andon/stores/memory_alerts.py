"""Alerts in memory: for tests, and where nothing may be written."""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from andon.alerts.rules.outbox import Delivery, SavedAlerts
from andon.alerts.rules.past import KEPT_SECONDS, Query, is_kept, matches, trimmed
from andon.model.alert import Alert, Phase

MOST_EPISODES = 2000


class MemoryAlertStore:
    """Keeps everything in memory; the state goes through JSON, as it does on disk."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: str | None = None
        self._deliveries: dict[tuple[str, str], Delivery] = {}
        self._episodes: dict[str, Alert] = {}

    def load(self) -> SavedAlerts | None:
        with self._lock:
            if self._state is None:
                return None
            return SavedAlerts(json.loads(self._state), tuple(self._deliveries.values()))

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], deliveries: Sequence[Delivery]
    ) -> None:
        with self._lock:
            self._state = json.dumps(state)
            self._deliveries = {delivery.key: delivery for delivery in deliveries}
            self._episodes |= {alert.id: trimmed(alert) for alert in changed if is_kept(alert)}

    def episodes(self, query: Query) -> Sequence[Alert]:
        with self._lock:
            found = [alert for alert in self._episodes.values() if matches(query, alert)]
        found.sort(key=lambda alert: (alert.since, alert.id), reverse=True)
        return found[: query.limit]

    def prune(self, at: float) -> int:
        with self._lock:
            before = len(self._episodes)
            kept = sorted(self._episodes.values(), key=lambda alert: alert.since)
            young = [a for a in kept if not _is_old(a, at)][-MOST_EPISODES:]
            self._episodes = {alert.id: alert for alert in young}
            return before - len(self._episodes)

    def close(self) -> None:
        """Nothing to close."""


def _is_old(alert: Alert, at: float) -> bool:
    ended = alert.resolved if alert.state is Phase.RESOLVED else None
    return ended is not None and ended < at - KEPT_SECONDS
