"""Routes for jobs: the list, one job, its output, cancel, and submit where that is allowed."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response

from andon.core.access.roles import Action, refusal_for
from andon.errors import Unavailable
from andon.model.job import JobState
from andon.model.shapes import to_json
from andon.web.answers.job_schemas import JobCancelled, JobsQueued
from andon.web.answers.texts import dumped
from andon.web.blocking_pool import BlockingPool
from andon.web.history_reader import HistoryReader
from andon.web.server_jobs import MOST_LISTED
from andon.web.transport.auth import add_notes, caller_of, sight_in

if TYPE_CHECKING:
    from andon.web.server_jobs import ServerJobs

MOST_NUMBER = 10_000_000
_Job = Annotated[int, Path(ge=1, le=MOST_NUMBER, description="a job's number")]
_STATES = "|".join(("active", *JobState))


def job_routes(
    router: APIRouter, jobs: "ServerJobs | None", reader: HistoryReader, server_user: str | None
) -> None:
    """Files are read in threads of their own: a hung folder delays only requests for jobs."""

    @router.get("/api/jobs", tags=["share"])
    async def job_list(
        request: Request,
        state: Annotated[str, Query(pattern=f"^({_STATES})?$")] = "",
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
    ) -> Response:
        """Jobs of the server's user, newest first; for others, what the lease book says."""
        found, sight = _there(jobs), sight_in(request.scope)
        key = ("jobs", sight, state, limit)
        return _sent(
            await reader.read(request, key, lambda: _json(found.page(sight, state, limit)))
        )

    @router.get("/api/jobs/{job}", tags=["share"])
    async def job_details(request: Request, job: _Job) -> Response:
        """One job: its state and reason, its position, its devices, how it ended."""
        found, sight = _there(jobs), sight_in(request.scope)
        key = ("job", sight, job)
        return _sent(await reader.read(request, key, lambda: _json(found.details(sight, job))))

    @router.get("/api/jobs/{job}/log", tags=["share"])
    async def job_log(
        request: Request,
        job: _Job,
        attempt: Annotated[int | None, Query(ge=1)] = None,
        start: Annotated[int | None, Query(ge=0, description="`end` of the last answer")] = None,
    ) -> Response:
        """The end of a job's output, or what follows `start`; for its user."""
        found, sight = _there(jobs), sight_in(request.scope)
        key = ("job log", sight, job, attempt, start)
        return _sent(
            await reader.read(request, key, lambda: _json(found.log(sight, job, attempt, start)))
        )

    _changing(router, jobs, server_user)


def _changing(router: APIRouter, jobs: "ServerJobs | None", server_user: str | None) -> None:
    pool = BlockingPool()

    @router.post("/api/jobs/{job}/cancel", tags=["share"])
    async def cancel_job(request: Request, job: _Job) -> Response:
        """Cancel a job: it never starts, or its command is asked to end; needs a key."""
        found, who = _there(jobs), caller_of(request.scope)
        is_own = who.user is not None and who.user == server_user
        if (refused := refusal_for(who, Action.CANCEL, is_own, found.user)) is not None:
            raise refused
        outcome = await pool.do(request, lambda _: found.cancel(job))
        add_notes(request.scope, job=job, outcome=outcome)
        return _sent(_json(JobCancelled(job, outcome)))

    @router.post("/api/jobs", tags=["share"], status_code=201)
    async def submit_job(
        request: Request, given: Annotated[dict[str, Any], Body(description="a job file as JSON")]
    ) -> Response:
        """Queue jobs of the server's user; off unless jobs.submit_over_http is set. Needs the
        token or the server's user."""
        found = _there(jobs)
        numbers = await pool.do(request, lambda _: found.submit(given))
        add_notes(request.scope, jobs=list(numbers))
        return Response(_json(JobsQueued(tuple(numbers))), 201, media_type="application/json")


def _there(jobs: "ServerJobs | None") -> "ServerJobs":
    if jobs is None:
        raise Unavailable("this server has no jobs", hint="andon jobs lists those of this machine")
    return jobs


def _json(value: Any) -> bytes:
    return dumped(to_json(value))


def _sent(body: bytes) -> Response:
    return Response(body, media_type="application/json")
