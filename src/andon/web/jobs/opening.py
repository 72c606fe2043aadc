"""The jobs that a server shows and, where the settings allow it, accepts from its own user."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from andon.app.clusters import open_pollers
from andon.app.leases import labels_of
from andon.errors import Invalid
from andon.host.files import home_folder
from andon.jobs.dispatcher_guard import CHECK_SECONDS, DispatcherGuard
from andon.jobs.folder import JobsFolder, jobs_path
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.able import refuse
from andon.jobs.starting import start_dispatcher
from andon.model.device import Snapshot
from andon.model.job import HERE
from andon.model.lease_list import LeaseList
from andon.sampling.sampler import Sampler
from andon.settings.resolution import Settings
from andon.web.jobs.seen import ServerJobs
from andon.web.users.files import SharedFiles, UsersDesk

REQUEST = "the request"


def open_server_jobs(
    settings: Settings,
    user: str,
    book: Callable[[], LeaseList | None],
    users: SharedFiles | None,
    latest: Callable[[], Snapshot],
    *,
    encrypted: bool,
    own: UsersDesk | None = None,
) -> tuple[ServerJobs | None, Callable[[], None]]:
    """The jobs, and what closes them; None if there is no queue, as in a recording or on a system
    without locks. `own` are the server user's jobs, if they are not in the usual folder."""
    if settings.replay or sys.platform == "win32":
        return None, lambda: None

    clusters = open_pollers(settings, everyone=users is not None)
    queue = QueueDesk(
        user=user, wake=start_dispatcher, sample=latest, labels=lambda: labels_of(settings)
    )
    jobs = ServerJobs(
        own or queue,
        book,
        lambda: why_not_submit(settings.jobs_submit_over_http, os.getuid(), encrypted),
        partial(submit_document, queue),
        users,
        clusters,
    )

    def close() -> None:
        for one in clusters:
            one.close()

    return jobs, close


def open_dispatcher_guard(sampler: Sampler) -> DispatcherGuard:
    """Returns a guard that keeps a dispatcher running for the jobs of the server's user."""
    session = sampler.subscribe(CHECK_SECONDS, size=2, at_once=False)
    return DispatcherGuard(session, JobsFolder(jobs_path()), lambda: Queue().statuses)


def why_not_submit(allowed: bool, uid: int, encrypted: bool) -> str | None:
    """Returns why nothing may be submitted over the network; None if it may."""
    if uid == 0:
        return "a server run by root accepts no jobs over the network, whatever the settings say"
    if not allowed:
        return "jobs over the network are off (jobs.submit_over_http)"
    if not encrypted:
        return "jobs are accepted only over TLS, or on this machine: andon serve --tls-cert FILE"
    return None


def submit_document(queue: QueueDesk, document: Mapping[str, Any]) -> Sequence[int]:
    """Queues the jobs in a job file's document; returns their numbers."""
    from andon.jobs.file import submissions_of
    from andon.jobs.rules.file import jobs_in
    from andon.jobs.rules.model_file import is_model_file, model_jobs_in
    from andon.jobs.rules.parameters import refuse_many

    read = model_jobs_in if is_model_file(document) else jobs_in
    jobs, home = read(dict(document), REQUEST, {}), home_folder()
    if any(job.on not in ("", HERE) for job in jobs):
        raise Invalid(
            "jobs for a cluster are not accepted over the network",
            hint="in a terminal: andon submit --on NAME",
        )
    for job in jobs:
        refuse_many(len(job.each), agreed=False)
    made = [one for job in jobs for one in submissions_of(job, home)]
    refuse(queue, made)
    return [int(one.label.partition("_")[0]) for one in queue.submit(made)]
