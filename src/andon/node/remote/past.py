"""The history of a server."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from msgspec import Meta, Struct

from andon.errors import Invalid
from andon.history.rules.changes import ChangeList
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import EndedLease, HistoryNote
from andon.history.rules.series import Bucket
from andon.model import wire
from andon.model.check import CardResult
from andon.model.codec import Name, Whole, Wrong, read, read_document
from andon.model.device import Device
from andon.node.rest import RestServer

MOST_ROWS = 1_000_000
MOST_CHART_POINTS = 2_000
NOTES = "/api/history/notes"
T = TypeVar("T")
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class ThrottleChart(Struct, frozen=True):
    """The share of time of each throttle reason in each span."""

    readings: Annotated[list[Whole], Meta(max_length=MOST_ROWS)]
    throttle: dict[Name, list[Share | None]] = {}


class RemotePast:
    """What a server has recorded of its devices."""

    recorded = True

    def __init__(self, server: RestServer) -> None:
        self._server = server

    def devices(self) -> Sequence[Device]:
        return self._each(self._server.get("/api/history/devices"), "items", Device)

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        path = f"/api/devices/{quote(device, safe='')}/history"
        payload = self._server.get(path, metric=metric, since=since, until=until, points=points)
        return self._each(payload, "buckets", Bucket)

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        """Returns what `history.rules.throttle_shares` returns for a store."""
        path = f"/api/devices/{quote(device, safe='')}/charts"
        span = {"since": since, "until": until, "points": min(points, MOST_CHART_POINTS)}
        payload = self._server.get(path, metrics="utilization_percent", **span)
        try:
            found = read(ThrottleChart, payload)
            return found.readings, found.throttle
        except Wrong as exc:
            raise self._server.of_another_version(f"throttle shares: {exc}") from exc

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        payload = self._server.get("/api/usage", device=device, since=since, until=until)
        return self._each(payload, "items", UsageInterval)

    def checks(self) -> Sequence[CardResult]:
        return self._each(self._server.get("/api/checks"), "checks", CardResult)

    def notes(self, device: str | None, since: float, until: float) -> Sequence[HistoryNote]:
        payload = self._server.get(NOTES, device=device, since=since, until=until)
        return self._each(payload, "items", HistoryNote)

    def ended_leases(self, device: str | None, since: float, until: float) -> Sequence[EndedLease]:
        payload = self._server.get(NOTES, device=device, since=since, until=until)
        return self._each({"leases": [], **payload}, "leases", EndedLease)

    def add_note(self, note: HistoryNote) -> HistoryNote:
        names = ("device", "since", "until", "text", "by")
        made = self._server.post(NOTES, {name: getattr(note, name) for name in names})
        try:
            return read(HistoryNote, made)
        except Wrong as exc:
            raise self._server.of_another_version(f"the note: {exc}") from exc

    def remove_note(self, number: str) -> None:
        self._server.delete(f"{NOTES}/{quote(number, safe='')}")

    def changes(self, device: str, since: float, until: float) -> ChangeList:
        path = "/api/history/changes"
        payload = self._server.get(path, device=device, since=since, until=until)
        try:
            return read_document(ChangeList, payload)
        except Invalid as exc:
            raise self._server.of_another_version(exc.reason) from exc

    def _each(self, payload: wire.Json, place: str, kind: type[T]) -> list[T]:
        """Decodes the rows at a key of an answer; fields of a newer server are ignored."""
        rows: Any = Annotated[list[kind], Meta(max_length=MOST_ROWS)]  # type: ignore[valid-type]
        try:
            if place not in payload:
                raise Wrong(place, "is missing")
            found: list[T] = read(rows, payload[place])
            return found
        except Wrong as wrong:
            raise self._server.of_another_version(str(wrong.within(place))) from wrong
