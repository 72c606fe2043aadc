"""Caches the last list of each cluster's jobs in a file, which every command reads for five
seconds."""

import time
from collections.abc import Sequence
from contextlib import suppress

from msgspec import to_builtins
from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import make_private, read_regular
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.folder import cluster_page_path, open_jobs_folder, write_whole
from andon.jobs.rules.cluster_views import PAGE_SCHEMA, ClusterPage
from andon.jobs.rules.polling import PAST_SECONDS
from andon.model.codec import Wrong, read
from andon.model.job.cluster import ClusterJob
from andon.model.job.spec import dumps, loads
from andon.model.shapes import to_json

LARGEST_BYTES = 64 << 20


def cached_page(name: str, identity: str | None = None) -> ClusterPage:
    """Returns the cached page; an empty one if there is none, or if another server answered or
    answered another user than the `identity` names."""
    with suppress(OSError, Wrong):
        value = loads(read_regular(cluster_page_path(name), LARGEST_BYTES))
        page = read(ClusterPage, value)
        same = identity is None or page.identity == identity
        if value.get("schema") == PAGE_SCHEMA and page.name == name and same:
            return page
    return ClusterPage(name, identity=identity or "")


def keep_page(page: ClusterPage) -> None:
    """Writes the file, if that is possible; otherwise the next command asks again."""
    with suppress(OSError, AndonError):
        open_jobs_folder()
        path = cluster_page_path(page.name)
        make_private(path.parent)
        text = dumps({"schema": PAGE_SCHEMA, **to_json(page)})
        write_whole(path.parent, path.name, text, sync=False)


def forget_answer(name: str) -> None:
    """Makes the next list ask the cluster: its jobs have just been changed."""
    page = cached_page(name)
    if page.tried:
        keep_page(replace(page, tried=0.0))


def was_used(name: str) -> bool:
    """Whether a cluster has ever answered here, or a job was submitted to it of late."""
    if cached_page(name).at is not None:
        return True
    with suppress(AndonError):
        return any(note.cluster == name for note in recent_notes(time.time() - PAST_SECONDS))
    return False


def valid(jobs: Sequence[ClusterJob]) -> tuple[list[ClusterJob], str | None]:
    """Returns the jobs with valid values, and what is wrong with the first invalid one: one bad job
    must not hide the others."""
    found, wrong = list[ClusterJob](), None
    for job in jobs:
        try:
            found.append(read(ClusterJob, to_builtins(job)))
        except (Wrong, TypeError) as exc:
            wrong = wrong or str(exc)
    return found, wrong
