"""What clusters last answered about their jobs: kept in a file each, and asked for again."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import make_private, read_regular
from andon.jobs.clusters.asking import OpenCluster, all_within
from andon.jobs.clusters.notes import recent_notes
from andon.jobs.folder import cluster_page_path, open_jobs_folder, write_whole
from andon.jobs.rules.cluster_views import (
    PAGE_SCHEMA,
    ClusterPage,
    cluster_views,
    page_line,
)
from andon.jobs.rules.polling import PAST_SECONDS, is_fresh
from andon.model.codec import Wrong, read
from andon.model.job.cluster import ClusterJob
from andon.model.job.facts import JobView
from andon.model.job.spec import dumps, loads
from andon.model.shapes import to_json

LARGEST_BYTES = 64 << 20


class ClusterList(Struct, frozen=True):
    """The jobs of all clusters, and a line about each that does not answer."""

    views: Sequence[JobView] = ()
    notes: Sequence[str] = ()


def kept_page(name: str) -> ClusterPage:
    """Returns what is in the file; an empty page if there is none."""
    with suppress(OSError, Wrong):
        value = loads(read_regular(cluster_page_path(name), LARGEST_BYTES))
        page = read(ClusterPage, value)
        if value.get("schema") == PAGE_SCHEMA and page.name == name:
            return page
    return ClusterPage(name)


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
    page = kept_page(name)
    if page.tried:
        keep_page(replace(page, tried=0.0))


def was_used(name: str) -> bool:
    """Whether a cluster has ever answered here, or a job was submitted to it of late."""
    if kept_page(name).at is not None:
        return True
    with suppress(AndonError):
        return any(note.cluster == name for note in recent_notes(time.time() - PAST_SECONDS))
    return False


def pages_now(
    clusters: Sequence[OpenCluster],
    everyone: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[ClusterPage]:
    """Returns the jobs of all clusters; those are asked, at the same time, whose last answer is
    not fresh. With `everyone`, the jobs of all users, which are not kept."""
    now = time.time()
    pages = {
        one.name: ClusterPage(one.name) if everyone else kept_page(one.name) for one in clusters
    }
    due = [one for one in clusters if not is_fresh(pages[one.name].tried, now)]
    limit = max((one.timeout_seconds for one in due), default=0.0)
    answers = all_within(limit, {one.name: _question(one, now, everyone) for one in due}, meanwhile)
    for name, answer in answers.items():
        pages[name] = after_answer(pages[name], answer, time.time())
        if not everyone:
            keep_page(pages[name])
    return list(pages.values())


def after_answer(
    page: ClusterPage, answer: Sequence[ClusterJob] | AndonError, now: float
) -> ClusterPage:
    if isinstance(answer, AndonError):
        return page.failed(answer.reason, now)
    return page.answered(*valid(answer), now)


def valid(jobs: Sequence[ClusterJob]) -> tuple[list[ClusterJob], str | None]:
    """Returns the jobs whose values are as declared, and what is wrong with the first other one:
    a name may be anything, and one job must not hide the others."""
    found, wrong = list[ClusterJob](), None
    for job in jobs:
        try:
            found.append(read(ClusterJob, to_builtins(job)))
        except (Wrong, TypeError) as exc:
            wrong = wrong or str(exc)
    return found, wrong


def _question(one: OpenCluster, now: float, everyone: bool) -> Callable[[], Sequence[ClusterJob]]:
    return lambda: one.open().jobs(now - PAST_SECONDS, everyone)


def listed(pages: Sequence[ClusterPage], now: float) -> ClusterList:
    """Returns the pages as they are shown, oldest job first."""
    notes = recent_notes(now - PAST_SECONDS)
    views = [view for page in pages for view in cluster_views(page, notes)]
    lines = [page_line(page, now, local_time(page.at)) for page in pages]
    return ClusterList(
        sorted(views, key=lambda view: view.submitted_at),
        [line for line in lines if line is not None],
    )


def local_time(at: float | None) -> str:
    """Returns `12:03`, and the day if that was another one."""
    if at is None:
        return ""
    then, today = time.localtime(at), time.localtime()
    same = then[:3] == today[:3]
    return time.strftime("%H:%M" if same else "%a %d %b %H:%M", then)
