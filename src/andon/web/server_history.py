"""The server's history: the recorder and its store, or the reason why there is none."""

from typing import TYPE_CHECKING, Protocol

from andon.access.roles import Sight
from andon.alerts.rules.self_checks import StoreStats
from andon.errors import Invalid, Unavailable
from andon.history.rules.series import HOST, HOST_METRICS, Bucket
from andon.model import wire
from andon.model.device import SAMPLE_VALUES
from andon.model.shapes import to_json
from andon.ports import Store
from andon.web.answers.sights import uses_seen_by

if TYPE_CHECKING:
    from andon.history.writer import Recorder

METRICS = tuple(name for name in SAMPLE_VALUES if name != "throttle")
"""The readings with a minimum, mean and maximum."""


class ServerHistory(Protocol):
    """What the server has recorded beyond the last minutes."""

    def health(self) -> wire.Json: ...

    def vitals(self) -> StoreStats: ...

    def knows(self, uuid: str) -> bool: ...

    def devices(self) -> wire.Json: ...

    def history(
        self, uuid: str, metric: str, since: float, until: float, points: int
    ) -> wire.Json: ...

    def usage(self, uuid: str | None, since: float, until: float, sight: Sight) -> wire.Json: ...

    def store(self) -> Store:
        """The store itself; raises Unavailable with the reason if there is none."""

    def close(self) -> None: ...


class NoHistory:
    """Stands in for the history of a server that has none: every call raises the reason."""

    def __init__(self, reason: str, hint: str) -> None:
        self._reason, self._hint = reason, hint

    def health(self) -> wire.Json:
        return {"state": "off", "reason": self._reason, "hint": self._hint}

    def vitals(self) -> StoreStats:
        return StoreStats()

    def knows(self, uuid: str) -> bool:
        raise Unavailable(self._reason, hint=self._hint)

    def devices(self) -> wire.Json:
        raise Unavailable(self._reason, hint=self._hint)

    def history(self, uuid: str, metric: str, since: float, until: float, points: int) -> wire.Json:
        raise Unavailable(self._reason, hint=self._hint)

    def usage(self, uuid: str | None, since: float, until: float, sight: Sight) -> wire.Json:
        raise Unavailable(self._reason, hint=self._hint)

    def store(self) -> Store:
        raise Unavailable(self._reason, hint=self._hint)

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


class Recorded:
    """History from the recorder's store."""

    def __init__(self, recorder: "Recorder", budget_bytes: int | None = None) -> None:
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

    def knows(self, uuid: str) -> bool:
        """Whether the store has history of a device that is not present now."""
        return any(device.uuid == uuid for device in self._recorder.store.devices())

    def devices(self) -> wire.Json:
        """Every device with history, including removed ones."""
        found = self._recorder.store.devices()
        return {
            "items": [
                {"uuid": d.uuid, "index": d.index, "vendor": d.vendor, "name": d.name}
                for d in found
            ]
        }

    def history(self, uuid: str, metric: str, since: float, until: float, points: int) -> wire.Json:
        known = HOST_METRICS if uuid == HOST else METRICS
        if metric not in known:
            raise Invalid(f"{metric[:60]!r} is not recorded", hint=f"one of: {', '.join(known)}")
        _check_span(since, until)
        found = self._recorder.store.history(uuid, metric, since, until, points)
        return {
            "device": uuid,
            "metric": metric,
            "since": since,
            "until": until,
            "buckets": [_bucket(one) for one in found],
        }

    def usage(self, uuid: str | None, since: float, until: float, sight: Sight) -> wire.Json:
        _check_span(since, until)
        found = uses_seen_by(sight, self._recorder.store.usage(uuid, since, until))
        return {"since": since, "until": until, "items": [to_json(use) for use in found]}

    def store(self) -> Store:
        return self._recorder.store

    def close(self) -> None:
        self._recorder.close()


def _bucket(one: Bucket) -> wire.Json:
    """Encodes one bucket by hand: `asdict` takes a hundred times as long."""
    return {
        "since": one.since,
        "until": one.until,
        "count": one.count,
        "min": one.min,
        "mean": one.mean,
        "max": one.max,
    }


def _check_span(since: float, until: float) -> None:
    if since >= until:
        raise Invalid("the time range is empty", hint="from must be less than to")
