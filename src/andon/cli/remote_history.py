"""A server's history instead of this machine's file, for `andon history --url`."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

from andon.cli.remote import Server
from andon.core.history.intervals import UsageInterval
from andon.core.history.series import Bucket
from andon.model import wire
from andon.model.device import Device
from andon.model.json_fields import (
    MOST_PID,
    NAME,
    Wrong,
    each_in,
    inside,
    number_in,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    text_of,
    time_in,
    whole_in,
)

MOST_ROWS = 1_000_000
MOST_CHART_POINTS = 2_000
T = TypeVar("T")


class RemoteHistory:
    """The same methods as a read-only store."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def devices(self) -> Sequence[Device]:
        return self._each(self._server.get("/api/history/devices"), "items", _device)

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        path = f"/api/devices/{quote(device, safe='')}/history"
        payload = self._server.get(path, metric=metric, since=since, until=until, points=points)
        return self._each(payload, "buckets", _bucket)

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        """As `core.history.throttle_shares` gives them from a store."""
        path = f"/api/devices/{quote(device, safe='')}/charts"
        asked = {"since": since, "until": until, "points": min(points, MOST_CHART_POINTS)}
        payload = self._server.get(path, metrics="utilization_percent", **asked)
        try:
            counts = [whole_in({"": one}, "") for one in _column(payload, "readings")]
            found = inside(payload, "throttle", lambda table: table) or {}
            return counts, {
                text_of(name, "throttle", NAME): [
                    number_in({"": one}, "", 0, 1) for one in _column(found, name)
                ]
                for name in found
            }
        except Wrong as exc:
            raise self._server.of_another_version(f"throttle shares: {exc}") from exc

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        payload = self._server.get("/api/usage", device=device, since=since, until=until)
        return self._each(payload, "items", _use)

    def close(self) -> None:
        """Nothing to close."""

    def _each(self, payload: wire.Json, place: str, read: Callable[[wire.Json], T]) -> list[T]:
        """Reads only the known fields: a newer server may send more."""
        try:
            if place not in payload:
                raise Wrong(place, "is missing")
            return each_in(payload, place, read, MOST_ROWS)
        except Wrong as wrong:
            raise self._server.of_another_version(str(wrong)) from wrong


def _column(value: wire.Json, name: str) -> list[object]:
    found = value.get(name)
    if not isinstance(found, list) or len(found) > MOST_ROWS:
        raise Wrong(name, "is not a list of numbers")
    return found


def _device(value: wire.Json) -> Device:
    return Device(
        text_in(value, "uuid", NAME),
        whole_in(value, "index", wire.MOST_INDEX),
        text_in(value, "vendor", NAME),
        text_in(value, "name", NAME),
    )


def _bucket(value: wire.Json) -> Bucket:
    return Bucket(
        time_in(value, "since"),
        time_in(value, "until"),
        whole_in(value, "count"),
        number_in(value, "min"),
        number_in(value, "mean"),
        number_in(value, "max"),
    )


def _use(value: wire.Json) -> UsageInterval:
    return UsageInterval(
        text_in(value, "device", NAME),
        whole_in(value, "pid", MOST_PID),
        some_time_in(value, "started"),
        some_text_in(value, "user", NAME),
        some_text_in(value, "name", NAME),
        time_in(value, "first"),
        time_in(value, "last"),
        some_whole_in(value, "peak_memory_bytes"),
    )
