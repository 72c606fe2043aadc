"""The REST routes.

What only reads the last snapshot is answered in the event loop. What takes longer runs in threads,
and what anyone can make expensive in a HistoryReader, where it delays only requests of its kind.
"""

import math
import time
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec.structs import asdict

from andon.errors import Gone, Invalid
from andon.explain.evidence.departures import departures
from andon.history.rules.series import HOST, HOST_METRICS
from andon.host.processes.facts import exited
from andon.model import wire
from andon.model.naming import FORMS, device_named
from andon.model.shapes import to_json
from andon.node.seen.node import SeenNode
from andon.node.watched.past import METRICS
from andon.sampling.rules.server_snapshot import INTERVAL_HEADER
from andon.web.answers import payloads
from andon.web.answers.description import PROBLEMS
from andon.web.answers.single_flight import SingleFlight
from andon.web.route_parts import RouteParts
from andon.web.routes.alerts import alert_routes
from andon.web.routes.calendars import calendar_routes
from andon.web.routes.checks import check_routes
from andon.web.routes.jobs import job_routes
from andon.web.routes.leases import lease_routes
from andon.web.routes.nodes import node_routes
from andon.web.routes.picked import Picked
from andon.web.routes.reservations import reservation_routes
from andon.web.routes.responses import dumped, sent, sent_json
from andon.web.routes.runs import run_routes
from andon.web.routes.sessions import session_routes
from andon.web.routes.tokens import token_routes
from andon.web.routes.topology import estimate_routes, topology_routes

MAX_POINTS = 10_000
DAY_SECONDS = 86_400.0
FURTHEST = 32_503_680_000.0  # the year 3000: later times are milliseconds by mistake


ERRORS: dict[int | str, dict[str, Any]] = {
    # By reference: FastAPI would make a model of its own for every error of every route.
    status: {"description": text, "content": {"application/json": {"schema": PROBLEMS}}}
    for status, text in {
        400: "The request is malformed.",
        401: "The key is missing or wrong.",
        403: "The Host or Origin is not this server's, or the caller may not do this.",
        404: "Not found.",
        409: "The current state does not allow this.",
        422: "A parameter is invalid.",
        429: "Too many wrong tokens; Retry-After says when.",
        503: "Not available now.",
    }.items()
}
DeviceName = Annotated[str, Path(max_length=200, description=FORMS)]
Past = Annotated[str, Path(max_length=200, description=f'{FORMS}; or "host"')]
Moment = Annotated[float | None, Query(ge=0, le=FURTHEST, description="UTC seconds")]
Since = Annotated[Moment, Query(alias="since")]
Until = Annotated[Moment, Query(alias="until")]
_METRIC_NAMES = ", ".join(dict.fromkeys((*METRICS, *HOST_METRICS)))


def routes(parts: RouteParts) -> APIRouter:
    """All of /api, /healthz and /metrics."""
    router = APIRouter(responses=ERRORS)
    _summary_routes(router, parts)
    _devices(router, parts)
    _past(router, parts)
    alert_routes(router)
    check_routes(router, parts)
    lease_routes(router)
    reservation_routes(router)
    calendar_routes(router, parts)
    estimate_routes(router)
    topology_routes(router, parts.minutes)
    run_routes(router, parts.records)
    job_routes(router, parts.queue)
    node_routes(router, parts)
    token_routes(router, parts)
    session_routes(router, parts.keys, parts.sign_in)
    _machines(router, parts)
    return router


def _summary_routes(router: APIRouter, parts: RouteParts) -> None:
    @router.get("/api/gpu/summary", tags=["kept"])
    async def gpu_summary(node: Picked) -> Response:
        """The node in one table: counts, means and one entry per GPU."""
        return sent_json(payloads.gpu_summary(node.live.latest(), parts.settings))

    @router.get("/api/gpu/metrics", tags=["kept"])
    async def gpu_metrics(node: Picked) -> Response:
        """Every device's readings and processes."""
        return sent_json(payloads.gpu_metrics(node.live.latest()))

    @router.get("/api/gpu/processes", tags=["kept"])
    async def gpu_processes(node: Picked) -> Response:
        """Every process on a device."""
        return sent_json(payloads.gpu_processes(node.live.latest()))

    @router.get("/api/health", tags=["kept"])
    async def api_health() -> Response:
        """The state of each part of the server; always 200 while it runs."""
        return sent_json(parts.health(parts.parts))


def _devices(router: APIRouter, parts: RouteParts) -> None:
    expensive = SingleFlight()

    @router.get("/api/snapshot", tags=["watch"])
    async def snapshot(node: Picked) -> Response:
        """andon.snapshot/1: the whole node at one instant."""
        # In the event loop: the text is mostly cached, and a thread would cost more.
        paced = {INTERVAL_HEADER: f"{node.live.interval_seconds:g}"}
        return Response(node.live.text(), media_type="application/json", headers=paced)

    @router.get("/api/snapshots", tags=["watch"])
    async def snapshots(request: Request, node: Picked) -> Response:
        """The snapshots of the last two minutes, oldest first."""
        at, sight = node.live.minutes_key  # the moment of a hub's node has its name

        def made() -> bytes:
            return dumped({"items": [wire.snapshot_to_json(one) for one in node.live.minutes()]})

        key = ("snapshots", at, sight)
        return sent(
            await parts.minutes.read(request, key, lambda: expensive.answer(at, sight, made))
        )

    @router.get("/api/system", tags=["watch"])
    async def system(node: Picked) -> Response:
        """The machine itself: CPU, memory, load, disks, network and versions."""
        return sent_json(payloads.system(node.live.latest()))

    @router.get("/api/devices", tags=["watch"])
    async def devices(node: Picked) -> Response:
        """Every device with its state and readings."""
        return sent_json(payloads.devices(node.live.latest()))

    @router.get("/api/devices/{device}", tags=["watch"])
    async def device(node: Picked, device: DeviceName) -> Response:
        """One device."""
        return sent_json(payloads.device(node.live.latest(), device))

    @router.get("/api/devices/{device}/why", tags=["explain"])
    async def why(request: Request, node: Picked, device: DeviceName) -> Response:
        """andon.why/1: why it is hot, slow, full or idle, from the last two minutes."""
        uuid = device_named(device, node.live.latest().devices).device.uuid

        def made() -> bytes:
            shown, past = node.live.minutes(), node.past
            usage = past.usage if past.recorded else None
            left = departures(shown, usage, exited if node.has_local_processes else None)
            lamps = node.live.lamps(shown[-1])
            return dumped(payloads.why(shown, uuid, node.alerts.rulebook, lamps, left))

        # Those with a process in the last minutes are not all: who had one before sees its name.
        key = ("why", uuid, node.live.minutes_key[0], node.sight)
        return sent(await parts.minutes.read(request, key, made))

    @router.get("/api/processes", tags=["watch"])
    async def processes(node: Picked) -> Response:
        """Every process on a device, with its user."""
        return sent_json(payloads.processes(node.live.latest()))


def _past(router: APIRouter, parts: RouteParts) -> None:
    @router.get("/api/devices/{device}/history", tags=["watch"])
    async def history(
        request: Request,
        node: Picked,
        device: Past,
        metric: Annotated[str, Query(max_length=60, description=f"one of: {_METRIC_NAMES}")],
        start: Since = None,
        end: Until = None,
        points: Annotated[int, Query(ge=1, le=MAX_POINTS)] = 300,
    ) -> Response:
        """Minimum, mean and maximum per bucket; by default for the last day."""
        since, until = span(start, end)

        def made() -> bytes:
            uuid = device_uuid(node, device)
            found = node.past.history(uuid, metric, since, until, points)
            about = {"device": uuid, "metric": metric, "since": since, "until": until}
            return dumped({**about, "buckets": [asdict(one) for one in found]})

        key = ("history", device, metric, since, until, points)
        return sent(await parts.past.read(request, key, made))

    @router.get("/api/history/devices", tags=["watch"])
    async def recorded(request: Request, node: Picked) -> Response:
        """Every device with history, including removed ones."""

        def made() -> bytes:
            names = ("uuid", "index", "vendor", "name")
            items = [{name: getattr(d, name) for name in names} for d in node.past.devices()]
            return dumped({"items": items})

        return sent(await parts.past.read(request, "devices", made))

    @router.get("/api/usage", tags=["watch"])
    async def usage(
        request: Request,
        node: Picked,
        device: Annotated[str | None, Query(max_length=200)] = None,
        start: Since = None,
        end: Until = None,
    ) -> Response:
        """Which processes used a device, or any, and when; by default in the last day."""
        since, until = span(start, end)

        def made() -> bytes:
            uuid = None if device is None else device_uuid(node, device)
            found = node.past.usage(uuid, since, until)
            return dumped({"since": since, "until": until, "items": [to_json(u) for u in found]})

        key = ("all uses", device, since, until, node.sight)
        return sent(await parts.past.read(request, key, made))


def _machines(router: APIRouter, parts: RouteParts) -> None:
    @router.get("/healthz", tags=["machines"])
    async def healthz() -> Response:
        """Answers ok to anyone while the server runs."""
        return Response("ok\n", media_type="text/plain")

    @router.get("/metrics", tags=["machines"])
    async def metrics(request: Request) -> Response:
        """Prometheus text."""
        found = await parts.scrapes.read(request, "metrics", lambda: parts.expose().encode())
        return Response(found, media_type="text/plain; version=0.0.4; charset=utf-8")


def span(
    start: float | None, end: float | None, seconds: float = DAY_SECONDS, step: float = 1.0
) -> tuple[float, float]:
    """Returns the time range of a request, by default the last `seconds`; now is rounded up to a
    `step`, so that concurrent requests are identical."""
    until = step * math.ceil(time.time() / step) if end is None else end
    since = max(0.0, until - seconds) if start is None else start
    if since >= until:
        raise Invalid("the time range is empty", hint="since must be before until")
    return since, until


def device_uuid(node: SeenNode, name: str) -> str:
    """The UUID of a device with history: a present one, a removed one, or the node itself."""
    if name == HOST:
        return HOST
    try:
        return device_named(name, node.live.latest().devices).device.uuid
    except Gone:
        if name.isdecimal() or all(one.uuid != name for one in node.past.devices()):
            raise
        return name
