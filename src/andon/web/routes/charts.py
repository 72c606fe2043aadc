"""Routes for the board's charts: several readings at once, processes, the last minutes."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from andon.errors import Invalid, Unavailable
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import Bucket
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.shapes import names_of, plain, to_json
from andon.node.port import NodePast
from andon.node.seen.node import SeenNode
from andon.node.watched.past import METRICS
from andon.version import __version__
from andon.web.answers.schemas import (
    USAGE_WITHOUT,
    ChartBand,
    Charts,
    Features,
    NodeCharts,
    Recent,
    Usage,
)
from andon.web.fleet.paths import NODE
from andon.web.route_parts import RouteParts
from andon.web.routes.api import (
    ERRORS,
    DeviceName,
    Since,
    Until,
    device_uuid,
    span,
)
from andon.web.routes.picked import Picked
from andon.web.routes.responses import dumped, sent

DRAWN = (
    "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts",
    "sm_clock_mhz", "memory_clock_mhz",
)  # fmt: skip
MOST_POINTS = 2_000
MOST_POINTS_OF_ALL = 400
MOST_METRICS = 16
MOST_USES = 1_000
PAST_SECONDS = 120
MINUTES_SECONDS = 300
MOST_RECENT_SECONDS = 3 * 3600
RECENT_STEP_SECONDS = 5
HOURS_STEP_SECONDS = 120
_USAGE_ROW = names_of(UsageInterval, without=USAGE_WITHOUT)


def routes(parts: RouteParts) -> APIRouter:
    """The routes that only the charts need."""
    router = APIRouter(responses=ERRORS, tags=["board"])

    @router.get("/api/devices/{device}/charts")
    async def charts(
        request: Request,
        node: Picked,
        device: DeviceName,
        metrics: Annotated[str, Query(max_length=400)] = ",".join(DRAWN),
        start: Since = None,
        end: Until = None,
        points: Annotated[int, Query(ge=1, le=MOST_POINTS)] = 300,
    ) -> Response:
        """Several readings over time in columns, and the throttle reasons."""
        names, (since, until) = _names(metrics), span(start, end)

        def made() -> bytes:
            uuid = device_uuid(node, device)
            return dumped(drawn(node.past, uuid, names, since, until, points))

        key = ("charts", device, tuple(names), since, until, points)
        return sent(await parts.past.read(request, key, made))

    @router.get("/api/charts")
    async def every_chart(
        request: Request,
        node: Picked,
        metric: Annotated[str, Query(max_length=60)] = "utilization_percent",
        start: Since = None,
        end: Until = None,
        points: Annotated[int, Query(ge=1, le=MOST_POINTS_OF_ALL)] = 120,
    ) -> Response:
        """One reading of every device over time, in columns."""
        names, (since, until) = _names(metric), span(start, end)

        def made() -> bytes:
            uuids = [status.device.uuid for status in node.live.latest().devices]
            return dumped(drawn_of_all(node.past, uuids, names[0], since, until, points))

        return sent(
            await parts.past.read(request, ("charts", names[0], since, until, points), made)
        )

    @router.get("/api/devices/{device}/usage")
    async def usage(
        request: Request,
        node: Picked,
        device: DeviceName,
        start: Since = None,
        end: Until = None,
    ) -> Response:
        """Which processes used the device and when; by default in the last day."""
        since, until = span(start, end)

        def made() -> bytes:
            return dumped(used(node.past, device_uuid(node, device), since, until))

        key = ("usage", device, since, until, node.sight)
        return sent(await parts.past.read(request, key, made))

    @router.get("/api/recent")
    async def recent(
        request: Request,
        node: Picked,
        metric: Annotated[str, Query(max_length=60)] = "utilization_percent",
        seconds: Annotated[int, Query(ge=PAST_SECONDS, le=MOST_RECENT_SECONDS)] = PAST_SECONDS,
    ) -> Response:
        """One reading of every device over the last two minutes; more where there is a history,
        beyond five minutes as means of two."""
        return sent(await _recent(parts, request, node, _names(metric)[0], seconds))

    @router.get("/api/features")
    async def features(request: Request, node: Picked) -> Response:
        """The features of this server: the board shows a page for each."""
        hub = request.scope.get(NODE) is None and parts.fleet is not None
        return sent(dumped(to_json(Features(__version__, node.features | {"nodes": hub}))))

    return router


async def _recent(
    parts: RouteParts, request: Request, node: SeenNode, name: str, seconds: int
) -> bytes:
    key = ("recent", name, node.live.minutes_key[0], seconds)

    def whole() -> bytes:
        past = node.live.samples
        own = past if seconds <= MINUTES_SECONDS else past[-1:]
        return dumped(with_recorded(lately(own, name), node.past, seconds))

    if seconds > PAST_SECONDS:
        with suppress(Unavailable):  # there is no history, or too many read it now
            return await parts.past.read(request, key, whole)
    return await parts.minutes.read(request, key, lambda: dumped(lately(node.live.samples, name)))


def drawn(
    past: NodePast, uuid: str, names: Sequence[str], since: float, until: float, points: int
) -> wire.Json:
    """Readings in columns, as a chart needs them."""
    found = {name: past.history(uuid, name, since, until, points) for name in names}
    counts, shares = past.throttle_shares(uuid, since, until, points)
    charts = Charts(
        device=uuid,
        since=since,
        until=until,
        at=_starts(since, until, points),
        series={name: _columns(buckets) for name, buckets in found.items()},
        throttle=shares,
        readings=counts,
    )
    return dict(to_json(charts))


def drawn_of_all(
    past: NodePast, uuids: Sequence[str], metric: str, since: float, until: float, points: int
) -> wire.Json:
    """Returns the same reading of each device, in spans of the same times."""
    found = {uuid: _columns(past.history(uuid, metric, since, until, points)) for uuid in uuids}
    return dict(to_json(NodeCharts(metric, since, until, _starts(since, until, points), found)))


def used(past: NodePast, uuid: str, since: float, until: float) -> wire.Json:
    """The processes on a device, latest first."""
    found = sorted(past.usage(uuid, since, until), key=lambda use: use.last, reverse=True)
    omitted = max(0, len(found) - MOST_USES)
    usage = Usage(uuid, since, until, found[:MOST_USES], omitted)
    return {
        **plain(usage, names_of(Usage)),
        "items": [plain(use, _USAGE_ROW) for use in usage.items],
    }


def lately(past: Sequence[Snapshot], metric: str) -> wire.Json:
    """Returns recent readings; a device that did not respond leaves a gap."""
    uuids = [status.device.uuid for status in past[-1].devices] if past else []
    columns: dict[str, list[float | None]] = {uuid: [] for uuid in uuids}
    for snapshot in past:
        read = {
            status.device.uuid: getattr(status.sample, metric)
            for status in snapshot.devices
            if status.answered
        }
        for uuid, column in columns.items():
            column.append(read.get(uuid))
    return dict(to_json(Recent(metric, [snapshot.at for snapshot in past], columns)))


def with_recorded(recent: wire.Json, past: NodePast, seconds: int) -> wire.Json:
    """Adds readings older than the snapshots in memory from the history, as means of a few
    seconds or, of hours, of two minutes: a tile's line is complete once the board is opened."""
    at, devices = recent["at"], recent["devices"]
    step = RECENT_STEP_SECONDS if seconds <= MINUTES_SECONDS else HOURS_STEP_SECONDS
    points = int((seconds - (at[-1] - at[0])) // step) if at else 0
    if points < 1:
        return recent
    until = at[0]
    since = until - points * step

    def before(uuid: str) -> list[float | None]:
        found = past.history(uuid, recent["metric"], since, until, points)
        return [_short(bucket.mean) for bucket in found]

    columns = {uuid: [*before(uuid), *column] for uuid, column in devices.items()}
    return {**recent, "at": [*_starts(since, until, points), *at], "devices": columns}


def _columns(buckets: Sequence[Bucket]) -> ChartBand:
    return ChartBand(
        min=[_short(bucket.min) for bucket in buckets],
        mean=[_short(bucket.mean) for bucket in buckets],
        max=[_short(bucket.max) for bucket in buckets],
    )


def _starts(since: float, until: float, points: int) -> list[float]:
    """Returns when each span begins."""
    return [round(since + (until - since) * place / points, 3) for place in range(points)]


def _short(value: float | None) -> float | None:
    """Rounds a value: a mean of bytes needs no fraction."""
    if value is None:
        return None
    return round(value, 2) if abs(value) < 1e6 else round(value)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names or len(names) > MOST_METRICS:
        wrong = (
            f"{unknown[0][:60]!r} is not recorded" if unknown else f"1 to {MOST_METRICS} readings"
        )
        raise Invalid(wrong, hint=f"some of: {', '.join(METRICS)}")
    return names
