"""The jobs that a server shows and, where the settings allow it, accepts from its own user."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from andon.app.clusters import open_pollers
from andon.app.leases import labels_of
from andon.errors import Invalid
from andon.host.files import home_folder
from andon.jobs.dispatcher_guard import CHECK_SECONDS, DispatcherGuard
from andon.jobs.folder import JobsFolder, jobs_path, open_jobs_folder
from andon.jobs.queue import Queue, possible_here, refuse_too_many, same_as, submit, wake
from andon.leases.rules.eligibility import Labels
from andon.model.device import Snapshot
from andon.model.job.facts import JobFacts
from andon.model.lease_list import LeaseList
from andon.sampling.sampler import Sampler
from andon.settings.clusters import HERE
from andon.settings.resolution import Settings
from andon.web.jobs.clusters import ServerClusters
from andon.web.jobs.folder import FolderJobs
from andon.web.jobs.shown import ServerJobs
from andon.web.users.files import SharedFiles

REQUEST = "the request"


def open_server_jobs(
    settings: Settings,
    user: str,
    book: Callable[[], LeaseList | None],
    users: SharedFiles | None,
    latest: Callable[[], Snapshot],
    *,
    encrypted: bool,
    own: FolderJobs | None = None,
) -> tuple[ServerJobs | None, Callable[[], None]]:
    """The jobs, and what closes them; None if there is no queue, as in a recording or on a system
    without locks. `own` are the server user's jobs, if they are not in the usual folder."""
    if settings.replay or sys.platform == "win32":
        return None, lambda: None

    clusters = ServerClusters(open_pollers(settings, everyone=users is not None), user)
    jobs = ServerJobs(
        own or FolderJobs(Queue, user, wake),
        book,
        lambda: why_not_submit(settings.jobs_submit_over_http, os.getuid(), encrypted),
        lambda document: submit_document(document, latest, labels_of(settings)),
        users,
        clusters,
    )
    return jobs, clusters.close


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


def submit_document(
    document: Mapping[str, Any], latest: Callable[[], Snapshot], labels: Labels
) -> Sequence[int]:
    """Queues the jobs in a job file's document; returns their numbers."""
    from andon.jobs.file import JobQueue, queue_all, specs_of
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
    made = [possible_here(specs_of(job, home, {}, _known), latest, labels) for job in jobs]
    refuse_too_many(open_jobs_folder(), sum(map(len, made)))
    queue = JobQueue(_known, lambda specs: submit(possible_here(specs, latest, labels)), same_as)
    return [one.spec.number for one in queue_all(jobs, home, queue)]


def _known() -> Mapping[int, JobFacts]:
    return Queue().jobs
