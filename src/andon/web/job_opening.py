"""The jobs that a server shows and, where the settings allow it, accepts from its own user."""

from collections.abc import Mapping, Sequence
from typing import Any

from andon.errors import Invalid
from andon.host.files import home_folder
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.able import refuse
from andon.model.job import LOCAL

REQUEST = "the request"


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
    if any(job.on not in ("", LOCAL) for job in jobs):
        raise Invalid(
            "jobs for a cluster are not accepted over the network",
            hint="in a terminal: andon submit --on NAME",
        )
    for job in jobs:
        refuse_many(len(job.each), agreed=False)
    made = [one for job in jobs for one in submissions_of(job, home)]
    refuse(queue, made)
    return [int(one.label.partition("_")[0]) for one in queue.submit(made)]
