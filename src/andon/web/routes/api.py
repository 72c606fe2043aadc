"""The REST routes.

What only reads the last snapshot is answered in the event loop. What takes longer runs in threads,
and what anyone can make expensive in a separate one (`reading`), where it delays only requests of
its kind.
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from msgspec import Struct, field

from andon.access.roles import BLIND, Sight
from andon.alerts.watcher import Watcher
from andon.errors import AndonError, Gone
from andon.explain.evidence.departures import Usage, departures
from andon.history.rules.series import HOST, HOST_METRICS
from andon.host.processes.facts import exited
from andon.model import wire
from andon.model.device import Snapshot
from andon.model.naming import FORMS, device_named
from andon.sampling.rules.told import INTERVAL_HEADER
from andon.sampling.snapshot_feed import SnapshotFeed
from andon.web.answers import payloads
from andon.web.answers.description import PROBLEMS
from andon.web.answers.health import HealthPart, health
from andon.web.answers.sights import SingleFlight, all_seen_by, narrowed, seen_by, uses_seen_by
from andon.web.answers.texts import SnapshotTexts, dumped
from andon.web.history_reader import HistoryReader
from andon.web.routes.alerts import alert_routes
from andon.web.routes.jobs import job_routes
from andon.web.routes.leases import lease_routes
from andon.web.routes.runs import run_routes
from andon.web.routes.sessions import session_routes
from andon.web.routes.topology import estimate_routes, topology_routes
from andon.web.server_history import METRICS, ServerHistory
from andon.web.transport.auth import sight_in
from andon.web.transport.keys import Keys

if TYPE_CHECKING:  # locks are not on every system
    from andon.leases.network import NetworkLeases
    from andon.leases.tracker import LeaseTracker
    from andon.web.jobs.shown import ServerJobs
    from andon.web.runs.shown import ServerRuns

MAX_POINTS = 10_000
DAY_SECONDS = 86_400.0
FILES_THREADS = 4  # the files of one user may hang, and must not delay another's
PLACES = ("alerts", "leases", "jobs", "runs", "nodes")
TO_COME: dict[str, str] = {}
"""Routes with a tag that return nothing yet."""
FURTHEST = 32_503_680_000.0  # the year 3000: later times are milliseconds by mistake


class AppState(Struct, frozen=True):
    """What the routes use."""

    feed: SnapshotFeed
    keys: Keys
    history: ServerHistory
    parts: dict[str, HealthPart]
    expose: Callable[[], str] | None = None
    texts: SnapshotTexts = field(default_factory=SnapshotTexts)
    watcher: Watcher | None = None
    remote_leases: "NetworkLeases | None" = None
    leases: "LeaseTracker | None" = None
    sign_in: str | None = None
    """The name of the socket at which this machine's users get their links."""
    past: HistoryReader = field(default_factory=HistoryReader)
    """For requests that read the store."""
    minutes: HistoryReader = field(default_factory=HistoryReader)
    """For requests that read all of the last two minutes."""
    runs: "ServerRuns | None" = None
    records: HistoryReader = field(default_factory=lambda: HistoryReader(FILES_THREADS, what="run"))
    """For requests that read the records of runs."""
    jobs: "ServerJobs | None" = None
    queue: HistoryReader = field(default_factory=lambda: HistoryReader(FILES_THREADS, what="job"))
    """For requests that read the folder of jobs."""
    placed: Callable[[], Snapshot] | None = None
    """The latest snapshot with the places of its devices, which may have to be asked for."""

    @property
    def features(self) -> dict[str, bool]:
        """Which of the board's pages have something to show."""
        there = {name: name not in TO_COME for name in PLACES}
        return there | {
            "alerts": self.watcher is not None,
            "leases": self.remote_leases is not None,
            "runs": self.runs is not None,
            "jobs": self.jobs is not None,
            "nodes": False,  # a list of one: a server monitors only its own node
        }


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
_KEPT = ", ".join(dict.fromkeys((*METRICS, *HOST_METRICS)))


def routes(state: AppState) -> APIRouter:
    """All of /api, /healthz and /metrics."""
    router = APIRouter(responses=ERRORS)
    _kept(router, state)
    _devices(router, state)
    _past(router, state)
    alert_routes(router, state.feed, state.watcher, state.leases, state.remote_leases)
    lease_routes(router, state.feed, state.remote_leases, state.keys.owner.user)
    estimate_routes(router, state.feed, state.remote_leases)
    topology_routes(router, state.placed or state.feed.latest, state.minutes)
    run_routes(router, state.runs, state.records)
    job_routes(router, state.jobs, state.queue)
    _later(router, state)
    session_routes(router, state.keys, state.sign_in)
    _machines(router, state)
    return router


def _kept(router: APIRouter, state: AppState) -> None:
    @router.get("/api/gpu/summary", tags=["kept"])
    async def gpu_summary(request: Request) -> Response:
        """The node in one table: counts, means and one entry per GPU."""
        return _json(payloads.gpu_summary(_seen(request, state), state.feed.settings))

    @router.get("/api/gpu/metrics", tags=["kept"])
    async def gpu_metrics(request: Request) -> Response:
        """Every device's readings and processes."""
        return _json(payloads.gpu_metrics(_seen(request, state)))

    @router.get("/api/gpu/processes", tags=["kept"])
    async def gpu_processes(request: Request) -> Response:
        """Every process on a device."""
        return _json(payloads.gpu_processes(_seen(request, state)))

    @router.get("/api/health", tags=["kept"])
    async def api_health() -> Response:
        """The state of each part of the server; always 200 while it runs."""
        return _json(health(state.feed, state.parts))


def _devices(router: APIRouter, state: AppState) -> None:
    expensive = SingleFlight()

    @router.get("/api/snapshot", tags=["watch"])
    async def snapshot(request: Request) -> Response:
        """andon.snapshot/1: the whole node at one instant."""
        # In the event loop: the text is mostly cached, and a thread would cost more.
        text = state.texts.of(state.feed.latest(), sight_in(request.scope))
        paced = {INTERVAL_HEADER: f"{state.feed.settings.interval_seconds:g}"}
        return Response(text, media_type="application/json", headers=paced)

    @router.get("/api/snapshots", tags=["watch"])
    async def snapshots(request: Request) -> Response:
        """The snapshots of the last two minutes, oldest first."""
        past = state.feed.past()
        sight = _sight_over(request, past)

        def made() -> bytes:
            shown = all_seen_by(sight, past)
            return dumped({"items": [wire.snapshot_to_json(one) for one in shown]})

        key = ("snapshots", past[-1].at, sight)
        return sent(
            await state.minutes.read(request, key, lambda: expensive.answer(past[-1], sight, made))
        )

    @router.get("/api/system", tags=["watch"])
    async def system(request: Request) -> Response:
        """The machine itself: CPU, memory, load, disks, network and versions."""
        return _json(payloads.system(_seen(request, state)))

    @router.get("/api/devices", tags=["watch"])
    async def devices(request: Request) -> Response:
        """Every device with its state and readings."""
        return _json(payloads.devices(_seen(request, state)))

    @router.get("/api/devices/{device}", tags=["watch"])
    async def device(request: Request, device: DeviceName) -> Response:
        """One device."""
        return _json(payloads.device(_seen(request, state), device))

    @router.get("/api/devices/{device}/why", tags=["explain"])
    async def why(request: Request, device: DeviceName) -> Response:
        """andon.why/1: why it is hot, slow, full or idle, from the last two minutes."""
        past = state.feed.past()
        sight = _sight_over(request, past)
        uuid = device_named(device, past[-1].devices).device.uuid
        book = state.watcher.rulebook if state.watcher else None

        def made() -> bytes:
            shown = all_seen_by(sight, past)
            alerts = state.watcher.alerts() if state.watcher else None
            left = departures(shown, _usage(state, sight), None if past[-1].simulated else exited)
            return dumped(payloads.why(shown, uuid, book, alerts, left))

        return sent(await state.minutes.read(request, ("why", uuid, past[-1].at, sight), made))

    @router.get("/api/processes", tags=["watch"])
    async def processes(request: Request) -> Response:
        """Every process on a device, with its user."""
        return _json(payloads.processes(_seen(request, state)))


def _past(router: APIRouter, state: AppState) -> None:
    @router.get("/api/devices/{device}/history", tags=["watch"])
    async def history(
        request: Request,
        device: Past,
        metric: Annotated[str, Query(max_length=60, description=f"one of: {_KEPT}")],
        start: Annotated[Moment, Query(alias="since")] = None,
        end: Annotated[Moment, Query(alias="until")] = None,
        points: Annotated[int, Query(ge=1, le=MAX_POINTS)] = 300,
    ) -> Response:
        """Minimum, mean and maximum per bucket; by default for the last day."""
        since, until = _span(start, end)

        def made() -> bytes:
            uuid = _uuid(state, device)
            return dumped(state.history.history(uuid, metric, since, until, points))

        key = ("history", device, metric, since, until, points)
        return sent(await state.past.read(request, key, made))

    @router.get("/api/history/devices", tags=["watch"])
    async def recorded(request: Request) -> Response:
        """Every device with history, including removed ones."""
        made = await state.past.read(request, "devices", lambda: dumped(state.history.devices()))
        return sent(made)

    @router.get("/api/usage", tags=["watch"])
    async def usage(
        request: Request,
        device: Annotated[str | None, Query(max_length=200)] = None,
        start: Annotated[Moment, Query(alias="since")] = None,
        end: Annotated[Moment, Query(alias="until")] = None,
    ) -> Response:
        """Which processes used a device, or any, and when; by default in the last day."""
        (since, until), sight = _span(start, end), sight_in(request.scope)

        def made() -> bytes:
            uuid = None if device is None else _uuid(state, device)
            return dumped(state.history.usage(uuid, since, until, sight))

        key = ("all uses", device, since, until, sight)
        return sent(await state.past.read(request, key, made))


def _later(router: APIRouter, state: AppState) -> None:
    @router.get("/api/nodes", tags=["fleet"])
    def nodes() -> Response:
        """The nodes of this server, with what each has, what is allocated and how busy it is."""
        leases = None if state.remote_leases is None else state.remote_leases.listed()
        return _json(payloads.nodes(state.feed.latest(), leases))

    for name, tag in TO_COME.items():
        _to_come(router, name, tag)


def _to_come(router: APIRouter, name: str, tag: str) -> None:
    @router.get(f"/api/{name}", tags=[tag], name=name, summary=name.capitalize())
    async def to_come() -> Response:
        return _json(payloads.to_come(name))


def _machines(router: APIRouter, state: AppState) -> None:
    @router.get("/healthz", tags=["machines"])
    async def healthz() -> Response:
        """Answers ok to anyone while the server runs."""
        return Response("ok\n", media_type="text/plain")

    @router.get("/metrics", tags=["machines"])
    async def metrics() -> Response:
        """Prometheus text."""
        if state.expose is None:
            raise Gone("this server has no exporter", hint="/api/gpu/metrics has the same readings")
        return Response(state.expose(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _seen(request: Request, state: AppState) -> Snapshot:
    return seen_by(sight_in(request.scope), state.feed.latest())


def _usage(state: AppState, sight: Sight) -> Usage | None:
    """Who used a device when, as this caller may see it; None for a server without a store."""
    try:
        store = state.history.store()
    except AndonError:
        return None
    return lambda *asked: uses_seen_by(sight, store.usage(*asked))


def _sight_over(request: Request, past: list[Snapshot]) -> Sight:
    """Returns the caller's sight: a user without a process in any snapshot sees what anyone
    sees, and shares the answer."""
    sight = sight_in(request.scope)
    return next((sight for one in past if narrowed(sight, one) == sight), BLIND)


def _span(start: float | None, end: float | None) -> tuple[float, float]:
    """Returns the span; now is rounded to a second, so that concurrent requests are identical."""
    until = math.ceil(time.time()) if end is None else end
    return max(0.0, until - DAY_SECONDS) if start is None else start, until


def _uuid(state: AppState, name: str) -> str:
    """The UUID of a device with history: a present one, a removed one, or the node itself."""
    if name == HOST:
        return HOST
    try:
        return device_named(name, state.feed.latest().devices).device.uuid
    except Gone:
        if name.isdecimal() or not state.history.knows(name):
            raise
        return name


def _json(value: wire.Json) -> Response:
    return sent(dumped(value))


def sent(body: bytes) -> Response:
    return Response(body, media_type="application/json")


device_uuid = _uuid
