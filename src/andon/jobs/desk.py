"""The desk where jobs are handed in: this machine's queue, a cluster, a server, or all together.

Whoever submits, lists, follows and changes jobs asks a JobDesk and does not know which it is. What
a desk cannot do is not in `able`, and refused before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from andon.errors import AndonError
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.views import JobListing
from andon.model.job.desk import (
    Able,
    Accepted,
    Found,
    JobAct,
    JobName,
    JobOutcome,
    JobReason,
    LogPart,
    Submission,
    cluster_in,
)
from andon.model.job.facts import JobView

if TYPE_CHECKING:
    from andon.jobs.clusters.desk import ClusterDesk

POLL_SECONDS = 0.2


class JobDesk(Protocol):
    """A place that takes jobs. Jobs are named as people name them: 12, train, lab:4711.

    Every call may block, within the time limit of what it asks, and raises `Unavailable`, `Denied`,
    `Gone` or `Invalid` in one sentence with a hint.
    """

    @property
    def name(self) -> str:
        """The name of the desk as --on takes it."""

    @property
    def able(self) -> frozenset[Able]: ...

    @property
    def poll_seconds(self) -> float:
        """The shortest time between two polls while someone waits."""

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        """Submits jobs in their order; a later one may name an earlier one. With `dry` everything
        is checked and nothing is sent."""

    def listing(self, everyone: bool = False) -> JobListing:
        """Returns all jobs that have not ended, and the latest that did."""

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> Found:
        """Returns the jobs that are named; of several with one name, those that the act applies to
        come first."""

    def view(self, job: JobName) -> JobView:
        """Returns one job with its details: its variables and all reasons."""

    def act(self, act: JobAct, refs: Sequence[JobName]) -> Sequence[JobOutcome]:
        """Does this to each job; a failure with one does not stop the others."""

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        """Returns the output from this position on, or the end of it; at most this many bytes, of
        whole characters."""

    def reasons(self, job: JobName) -> Sequence[JobReason]:
        """Returns why a job waits or how it ended, most important first; none while it runs."""


class SeveralDesks:
    """What desks have in common that hold others: each job is found at the desk that has it."""

    def of(self, word: JobName) -> JobDesk:
        """Returns the desk that has this job."""
        raise NotImplementedError

    def jobs_of_group(self, word: str) -> Sequence[JobName]:
        """Returns the jobs that a word means as a group; empty if it is none."""
        return ()

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> Found:
        views, errors = dict[str, JobView](), list[AndonError]()
        for desk, some in self.split(refs):
            try:
                found = desk.find(some, act)
            except AndonError as error:
                found = Found([], [error])
            views |= {one.label: one for one in found.views}
            errors += found.errors
        return Found(list(views.values()), errors)

    def view(self, job: JobName) -> JobView:
        return self.of(job).view(job)

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        return [one for desk, some in self.split(refs) for one in desk.act(act, some)]

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        return self.of(job).log(job, start, most, attempt)

    def reasons(self, job: JobName) -> Sequence[JobReason]:
        return self.of(job).reasons(job)

    def split(self, refs: Sequence[JobName]) -> list[tuple[JobDesk, list[JobName]]]:
        """Groups the references by the desk that has the job."""
        found = dict[str, tuple[JobDesk, list[JobName]]]()
        for word in refs:
            for one in self.jobs_of_group(str(word)) or [word]:
                desk = self.of(one)
                found.setdefault(desk.name, (desk, []))[1].append(one)
        return list(found.values())


class Desks(SeveralDesks):
    """Implements JobDesk: this machine's queue and the clusters. NAME:ID is a job of that cluster,
    and a name may be a group of jobs on clusters."""

    name, poll_seconds = "", POLL_SECONDS

    def __init__(
        self,
        queue: QueueDesk,
        named: Callable[[str], ClusterDesk | None],
        every: Callable[[], Sequence[ClusterDesk]],
        group: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        self.queue, self.clusters, self._named, self._group = queue, every, named, group
        self.able = queue.able

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        return self.queue.submit(jobs, dry)

    def listing(self, everyone: bool = False) -> JobListing:
        own, clusters = self.queue.listing(), self.clusters()
        if not clusters:
            return JobListing.of(own.views, own.paused)
        from andon.jobs.clusters.desk import list_together

        found = list_together(clusters, everyone)
        return JobListing.of((*own.views, *found.views), own.paused, found.notes, found.clusters)

    def of(self, word: JobName) -> JobDesk:
        """Returns the cluster in the name of a job, else the queue."""
        name = cluster_in(word)
        return (self._named(name) if name else None) or self.queue

    def jobs_of_group(self, word: str) -> Sequence[JobName]:
        return self._group(word)


def desk_with(desk: JobDesk, job: JobName) -> JobDesk:
    """Returns the desk that has a job, which is `desk` itself unless that combines several."""
    return desk.of(job) if isinstance(desk, SeveralDesks) else desk


def split_by_desk(
    desk: JobDesk, refs: Sequence[JobName]
) -> Sequence[tuple[JobDesk, Sequence[JobName]]]:
    """Groups the references by desk, if these are several desks."""
    return desk.split(refs) if isinstance(desk, SeveralDesks) else [(desk, refs)]
