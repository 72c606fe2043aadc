"""Assembles the server: routes, live events and pages behind one gate."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from andon.access.gate import Rules
from andon.access.lockout import Lockout
from andon.errors import AndonError
from andon.version import __version__
from andon.web.answers.description import describe
from andon.web.answers.problems import UNEXPECTED, problem, problem_of
from andon.web.fleet.ingest import Ingest
from andon.web.fleet.paths import NodePaths
from andon.web.history_reader import Busy
from andon.web.live.events import Live
from andon.web.live.job_watch import JobWatch
from andon.web.live.node_watch import NodeWatch
from andon.web.live.run_watch import RunWatch
from andon.web.live.watch import Watch
from andon.web.route_parts import RouteParts
from andon.web.routes import charts, history, sharing, users
from andon.web.routes.api import routes
from andon.web.routes.pages import add_api_page, add_board
from andon.web.routes.parameters import refuse_unknown_parameters
from andon.web.routes.picked import refuse_below_node
from andon.web.transport.audit import Audit
from andon.web.transport.auth import Gate, GateConfig
from andon.web.transport.headers import App

_JSON = "application/json"


def build(parts: RouteParts, rules: Rules, audit: Audit) -> App:
    """The whole server as one ASGI application."""
    watches: list[Watch] = [JobWatch(parts.queue)] if parts.node.has_jobs else []
    if parts.fleet is not None:
        watches.append(NodeWatch(parts.minutes, parts.fleet.hub))
    watches.append(RunWatch(parts.records))
    lockout = Lockout()
    live = Live(parts.node, parts.keys, lockout, parts.settings, watches)
    parts.parts["live"] = live
    api = NodePaths(live.over(_api(parts, live.run)))
    gate = Gate(api, GateConfig(rules, parts.keys, audit, lockout, live.is_admitted))
    if parts.fleet is None:
        return gate
    return Ingest(gate, parts.fleet.hub, parts.fleet.take_past)


def _api(parts: RouteParts, run: Callable[[], AbstractAsyncContextManager[None]]) -> FastAPI:
    api = FastAPI(
        title="andon",
        version=__version__,
        description="Watches, explains, shares and records GPUs.",
        docs_url=None,  # the built-in pages would load scripts from other hosts
        redoc_url=None,
        lifespan=lambda _app: run(),
        redirect_slashes=False,
        dependencies=[Depends(refuse_unknown_parameters), Depends(refuse_below_node)],
    )
    api.state.server = parts
    api.include_router(routes(parts))
    api.include_router(charts.routes(parts))
    api.include_router(history.routes(parts))
    api.include_router(users.routes(parts))
    api.include_router(sharing.routes())
    describe(api)
    add_api_page(api)
    add_board(api)
    _handle_errors(api)
    return api


def _handle_errors(api: FastAPI) -> None:
    @api.exception_handler(AndonError)
    def ours(_request: Request, error: AndonError) -> Response:
        seconds = {"Retry-After": str(error.retry_seconds)} if isinstance(error, Busy) else None
        return Response(problem_of(error), error.http_status, seconds, media_type=_JSON)

    @api.exception_handler(HTTPException)
    def theirs(request: Request, error: HTTPException) -> Response:
        hint = "GET /openapi.json lists all routes"
        path = request.url.path[:200]
        reason = {
            404: f"not found: {path}",
            405: f"{request.method[:20]} is not allowed for {path}",
        }.get(error.status_code, str(error.detail))
        body = problem(error.status_code, reason, hint)
        return Response(body, error.status_code, error.headers, media_type=_JSON)

    @api.exception_handler(RequestValidationError)
    def invalid(_request: Request, error: RequestValidationError) -> Response:
        wrong = [_mistake(one) for one in error.errors()]
        body = problem(422, "; ".join(wrong[:8]), "GET /openapi.json describes the parameters")
        return Response(body, 422, media_type=_JSON)

    @api.exception_handler(Exception)
    def unexpected(_request: Request, _error: Exception) -> Response:
        body = problem(500, *UNEXPECTED)
        return Response(body, 500, media_type=_JSON)


def _mistake(error: dict[str, object]) -> str:
    place = error.get("loc", ())
    names = [str(part) for part in place] if isinstance(place, list | tuple) else []
    return f"{'.'.join(names[1:]) or 'the body'}: {error.get('msg')}"
