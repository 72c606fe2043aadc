"""Routes for jobs: the list, one job, its output, what can be done to it, and submit."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response

from andon.model.job.desk import MOST_LOG_BYTES, JobAct
from andon.model.job.facts import JobState
from andon.node.job_schemas import JobDone, JobLog, JobsQueued
from andon.node.seen.jobs import LOG_BYTES, MOST_LISTED, SeenJobs, tail_after
from andon.node.seen.node import SeenNode
from andon.web.blocking_pool import BlockingPool
from andon.web.history_reader import HistoryReader
from andon.web.routes.picked import Picked
from andon.web.routes.responses import sent, shaped
from andon.web.transport.auth import add_notes

_Job = Annotated[
    str,
    Path(
        pattern=r"^([1-9][0-9]{0,6}|[a-z][a-z0-9-]{0,31}:[^\s\x00-\x1f]{1,320})$",
        description="a job's number, or NAME:ID of a job of a cluster",
    ),
]
THERE_THREADS = 4
_STATES = "|".join(("active", *JobState))
_User = Annotated[
    str, Query(max_length=64, description="whose jobs; for root, where root runs the server")
]
_ACTS = {
    "hold": "Keep a waiting job from starting until it is resumed; needs a key.",
    "resume": "Let a held job wait for its turn again; needs a key.",
    "cancel": "Cancel a job: it never starts, or its command is asked to end; needs a key.",
    "retry": "Queue a job that has ended again; needs a key.",
    "requeue": "Stop a running job and queue it again; needs a key.",
}


def job_routes(router: APIRouter, reader: HistoryReader) -> None:
    """Adds the routes of jobs; a hung folder delays only requests for jobs."""
    there = HistoryReader(THERE_THREADS, what="cluster")

    @router.get("/api/jobs", tags=["share"])
    async def job_list(
        request: Request,
        node: Picked,
        state: Annotated[str, Query(pattern=f"^({_STATES})?$")] = "",
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
        user: _User = "",
    ) -> Response:
        """Jobs, newest first, and the queue. A server that root runs shows each user their own and
        root everyone's; any other one those of its user."""
        jobs, key = node.jobs.of(user), ("jobs", node.sight, state, limit, user)
        return sent(await reader.read(request, key, lambda: shaped(jobs.page(state, limit))))

    @router.get("/api/jobs/{job:path}/log", tags=["share"])
    async def job_log(
        request: Request,
        node: Picked,
        job: _Job,
        attempt: Annotated[int | None, Query(ge=1)] = None,
        start: Annotated[int | None, Query(ge=0, description="`end` of the last answer")] = None,
        most: Annotated[
            int | None, Query(ge=1, le=MOST_LOG_BYTES, description="bytes, exactly from `start` on")
        ] = None,
        user: _User = "",
    ) -> Response:
        """The end of a job's output, or what follows `start`; for its user."""
        jobs, key = node.jobs.of(user), ("job log", node.sight, job, attempt, start, most, user)
        name = _named(job)
        used = reader if isinstance(name, int) else there  # a cluster may take its time
        log = partial(_log, jobs, name, attempt, start, most)
        return sent(await used.read(request, key, lambda: shaped(log())))

    @router.get("/api/jobs/{job:path}", tags=["share"])
    async def job_details(request: Request, node: Picked, job: _Job, user: _User = "") -> Response:
        """One job: its state and reason, its position, its devices, how it ended."""
        jobs, key = node.jobs.of(user), ("job", node.sight, job, user)
        return sent(await reader.read(request, key, lambda: shaped(jobs.view(_named(job)))))

    _changing(router)


def _changing(router: APIRouter) -> None:
    pool = BlockingPool("job")

    async def done(request: Request, node: SeenNode, job: str, act: str, user: str) -> Response:
        jobs, name = node.jobs.of(user), _named(job)
        (outcome,) = await pool.do(request, lambda _: jobs.act(JobAct(act), [name]))
        if outcome.error is not None:
            raise outcome.error
        add_notes(request.scope, job=name, outcome=outcome.text)
        return sent(shaped(JobDone(name, outcome.text, outcome.note)))

    def add(act: str, description: str) -> None:
        path, name = f"/api/jobs/{{job:path}}/{act}", f"{act}_job"

        @router.post(path, name=name, description=description, tags=["share"])
        async def change(request: Request, node: Picked, job: _Job, user: _User = "") -> Response:
            return await done(request, node, job, act, user)

    for act, description in _ACTS.items():
        add(act, description)

    @router.post("/api/jobs/{job:path}/move", tags=["share"])
    async def move_job(
        request: Request,
        node: Picked,
        job: _Job,
        to: Annotated[str, Query(pattern="^(first|last)$")] = "first",
        user: _User = "",
    ) -> Response:
        """Move a waiting job to the front or the end of its user's own queue; needs a key."""
        return await done(request, node, job, to, user)

    @router.post("/api/jobs", tags=["share"], status_code=201)
    async def submit_job(
        request: Request,
        node: Picked,
        given: Annotated[dict[str, Any], Body(description="a job file as JSON")],
    ) -> Response:
        """Queue jobs of the server's user; off unless jobs.submit_over_http is set. Needs the
        token or the server's user."""
        jobs = node.jobs
        numbers = await pool.do(request, lambda _: jobs.submit_document(given))
        add_notes(request.scope, jobs=list(numbers))
        return sent(shaped(JobsQueued(tuple(numbers))), 201)


def _named(job: str) -> int | str:
    return int(job) if job.isdecimal() else job


def _log(
    jobs: SeenJobs, job: int | str, attempt: int | None, start: int | None, most: int | None
) -> JobLog:
    if most is not None or isinstance(job, str):
        part = jobs.log(job, start, most or LOG_BYTES, attempt)
    else:  # who is far behind gets the end
        part = tail_after(jobs.log(job, None, LOG_BYTES, attempt), start)
    return JobLog(job, part.attempt, part.start, part.end, part.text, part.ended)
