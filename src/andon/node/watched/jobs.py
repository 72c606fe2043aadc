"""The jobs of a server: its own user's, those of clusters, and other users' if root runs it."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from andon.errors import Gone
from andon.jobs.clusters.desk import listing_of
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.rules.views import JobListing
from andon.model.job.desk import JobAct, JobName, JobOutcome, LogPart, cluster_in
from andon.model.job.facts import JobView
from andon.node.exact_desk import ExactDesk, OwnDesk
from andon.node.job_schemas import PageScope
from andon.node.watched.users import SharedUsers, everyones_jobs


class ServedJobs(ExactDesk):
    """The jobs of everyone; a number refers to the server user's own. Every call may block."""

    scope = PageScope.SERVER

    def __init__(
        self,
        own: OwnDesk,
        why_not: Callable[[], str | None],
        submit: Callable[[dict[str, Any]], Sequence[int]],
        users: SharedUsers | None = None,
        clusters: Sequence[ClusterPoller] = (),
    ) -> None:
        """`why_not` returns why none may be submitted over the network, or None. `users` is set if
        root runs the server."""
        self.own, self.user, self.users = own, own.user, users
        self.why_not, self.submit_document = why_not, submit
        self._clusters = {one.name: one for one in clusters}

    def listing(self, everyone: bool = False) -> JobListing:
        found, on, (theirs, notes) = (
            self.own.listing(),
            self.on_clusters(),
            everyones_jobs(self.users),
        )
        views = [*found.views, *theirs, *on.views]
        return JobListing.of(views, found.paused, notes, on.clusters)

    def of(self, user: str) -> OwnDesk | None:
        found = None if self.users is None else self.users.named(user)
        return None if found is None else found.jobs

    def on_clusters(self) -> JobListing:
        pages = [one.page() for one in self._clusters.values()]
        return listing_of(pages) if pages else JobListing(())

    def view(self, job: JobName) -> JobView:
        if isinstance(job, int):
            return self.own.view(job)
        for one in self._poller(job).find([job]).views:
            if one.label == job:
                return one
        raise _no_job(job)

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        if isinstance(job, int):
            return self.own.log(job, start, most, attempt)
        return replace(self._poller(job).log(job, start, most), attempt=1)

    def acted(self, act: JobAct, job: JobName) -> Sequence[JobOutcome]:
        desk = self.own if isinstance(job, int) else self._poller(job)
        return desk.act(act, [job])

    def close(self) -> None:
        for one in self._clusters.values():
            one.close()

    def _poller(self, label: str) -> ClusterPoller:
        if (found := self._clusters.get(cluster_in(label))) is None:
            raise _no_job(label)
        return found


def _no_job(label: str) -> Gone:
    return Gone(f"there is no job {label[:80]}", hint="to list them: andon jobs --all")
