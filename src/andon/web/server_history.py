"""The server's history: the recorder and its store, or the reason why there is none."""

from typing import Protocol

from andon.alerts.rules.self_checks import StoreStats
from andon.errors import Unavailable
from andon.history.writer import Recorder
from andon.model import wire
from andon.model.shapes import to_json
from andon.ports import Store


class ServerHistory(Protocol):
    """What the server has recorded beyond the last minutes."""

    def health(self) -> wire.Json: ...

    def vitals(self) -> StoreStats: ...

    def store(self) -> Store:
        """The store itself; raises Unavailable with the reason if there is none."""


class NoHistory:
    """Stands in for the history of a server that has none: every call raises the reason."""

    def __init__(self, reason: str, hint: str) -> None:
        self._reason, self._hint = reason, hint

    def health(self) -> wire.Json:
        return {"state": "off", "reason": self._reason, "hint": self._hint}

    def vitals(self) -> StoreStats:
        return StoreStats()

    def store(self) -> Store:
        raise Unavailable(self._reason, hint=self._hint)


class Recorded:
    """History from the recorder's store."""

    def __init__(self, recorder: Recorder, budget_bytes: int | None = None) -> None:
        self._recorder, self._budget_bytes = recorder, budget_bytes

    def health(self) -> wire.Json:
        found = to_json(self._recorder.health())
        return {"state": "ok" if found.pop("ok") else "failing", **found}

    def vitals(self) -> StoreStats:
        """The state of the store, for alerts."""
        health = self._recorder.health()
        return StoreStats(
            health.reason,
            health.hint or "",
            health.dropped_snapshots,
            health.size_bytes,
            self._budget_bytes,
        )

    def store(self) -> Store:
        return self._recorder.store
