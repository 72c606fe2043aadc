"""The jobs that a server shows, of this machine and of clusters: its own user's; a server of root
shows each user their own."""

import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from andon.access.roles import (
    ALL_SEEING,
    ANONYMOUS,
    BLIND,
    Action,
    Identity,
    Sight,
    refusal_for,
)
from andon.errors import AndonError, Denied, Gone, Invalid
from andon.jobs.clusters.desk import listing_of
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.desk import JobDesk
from andon.jobs.rules.views import JobListing, listing_of_page
from andon.leases.rules.queue_reasons import queue_reasons
from andon.model.job.cluster import ClusterState
from andon.model.job.desk import (
    JobAct,
    JobOutcome,
    JobWord,
    LogPart,
    cluster_in,
)
from andon.model.job.facts import WAITS, JobState, JobView
from andon.model.lease_list import LeaseList
from andon.node.exact_desk import ExactDesk
from andon.node.seen.job_schemas import (
    JobCounts,
    JobPage,
    PageScope,
    QueuePlace,
)
from andon.node.seen.sights import not_seen
from andon.node.watched.users import SharedUsers, UserNode
from andon.runs.rules.matching import HIDDEN_NAME
from andon.units import sh

MOST_LISTED = 1000
LOG_BYTES = 64 * 1024
_ACTIONS = {
    JobAct.CANCEL: Action.CANCEL,
    JobAct.RETRY: Action.RETRY,
    JobAct.REQUEUE: Action.REQUEUE,
}


class OwnDesk(JobDesk, Protocol):
    """The jobs of the server's own user."""

    user: str


class ListedJobs(Struct, frozen=True):
    """What one caller sees: the jobs, oldest first, and what is missing."""

    views: Sequence[JobView]
    paused: bool
    scope: PageScope
    note: str | None = None
    clusters: tuple[ClusterState, ...] = ()


class SeenJobs(ExactDesk):
    """What one caller sees of a server's jobs and may do to them, until
    `seen_by` nobody in particular; every call may block. `why_not` returns why none may be
    submitted over the network, or None. `users` is set if root runs the server."""

    def __init__(
        self,
        own: OwnDesk,
        book: Callable[[], LeaseList | None],
        why_not: Callable[[], str | None],
        submit: Callable[[dict[str, Any]], Sequence[int]],
        users: SharedUsers | None = None,
        clusters: Sequence[ClusterPoller] = (),
    ) -> None:
        self._own, self.user, self._book = own, own.user, book
        self._clusters = {one.name: one for one in clusters}
        self._why_not, self._submit, self._users = why_not, submit, users
        self._sight, self._who, self._named = BLIND, ANONYMOUS, ""

    def seen_by(self, sight: Sight, who: Identity = ANONYMOUS, user: str = "") -> "SeenJobs":
        """Returns the desk of this caller. `user` names another user's jobs, for those who may see
        them."""
        seen = copy(self)
        seen._sight, seen._who, seen._named = sight, who, user
        return seen

    def of(self, user: str) -> "SeenJobs":
        return self.seen_by(self._sight, self._who, user)

    # Reading.

    def unfinished(self) -> list[JobView]:
        """Returns the jobs that wait or run here, for a hub."""
        views = self.seen_by(ALL_SEEING).listed().views
        return [one for one in views if one.ended is None and one.engine is None]

    def listed(self) -> ListedJobs:
        """A user's own jobs, everyone's for an owner, and the server user's for anyone else."""
        user = self._user()
        if user is not None or not self._sight.everything or self._users is None or self._named:
            whose, on = self._own if user is None else user.jobs, self._on_clusters()
            found, scope = whose.listing(), PageScope.SERVER if user is None else PageScope.OWN
            own = [one for one in on.views if one.user == whose.user]
            return ListedJobs(_merged(found.views, own), found.paused, scope, clusters=on.clusters)
        found, notes = self._own.listing(), list[str]()
        views = list(found.views)
        for one in self._users.known():
            try:
                views += one.jobs.listing().views
            except AndonError as error:
                notes.append(error.reason)
        on, note = self._on_clusters(), "; ".join(notes) or None
        views += on.views
        views.sort(key=lambda view: (view.submitted_at, view.user, view.number))
        return ListedJobs(views, found.paused, PageScope.EVERYONE, note, on.clusters)

    def page(self, state: str = "", limit: int = 100) -> JobPage:
        """Returns the newest jobs, in a state if one is named, and the queue of the machine."""
        sight, found = self._sight, self.listed()
        wanted = [one for one in reversed(found.views) if _is_wanted(one, state)]
        notes = [] if found.note is None else [found.note]
        if len(wanted) > limit:
            notes.append(f"{len(wanted):,} jobs; {limit:,} are shown")
        whose = sight.user if found.scope is PageScope.OWN else self.user
        whole = found.scope is not PageScope.SERVER or sight.shows(self.user)
        return JobPage(
            at=time.time(),
            user=self._named or whose or self.user,
            scope=found.scope,
            shared=self._users is not None,
            whole=whole,
            paused=found.paused,
            may_submit=self._why_not() is None,
            counts=counts_of(found.views),
            jobs=tuple(self.seen(one) for one in wanted[:limit]),
            queue=self._queue(),
            clusters=found.clusters if whole else (),
            note="; ".join(notes) or None,
        )

    def listing(self, everyone: bool = False) -> JobListing:
        page = self.page(limit=MOST_LISTED)
        return listing_of_page(page.jobs, page.paused, page.clusters, page.note)

    def seen(self, view: JobView) -> JobView:
        """Returns the job without details if the caller may not see its user's commands: only that
        it exists, and its state."""
        if self._sight.shows(view.user):
            return view
        return replace(
            view, name=HIDDEN_NAME, command=HIDDEN_NAME, folder="", reason=None, error=None,
            record=None, tags=(), waiting_details=(), environment={}, run=None, pid=None,
            group=None, params={}, progress=None,
        )  # fmt: skip

    def view(self, job: JobWord) -> JobView:
        """Returns one job, of which a number or NAME:ID is the exact name."""
        whose = self._whose
        try:
            if isinstance(job, str):
                return self._cluster_job(job, whose.user)
            return self.seen(whose.view(job))
        except Gone as exc:
            if self._named:
                raise
            shared = self._users is not None
            raise not_seen(f"job {job}", self._sight, shared, "andon jobs --all") from exc

    def log(
        self, job: JobWord, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        whose = self._whose
        user = self._own_on_cluster(self.view(job)).user if isinstance(job, str) else whose.user
        if not self._sight.shows(user):
            raise Denied(f"the output of a job is for {user} alone", hint="sign in: andon open")
        if isinstance(job, str):
            return replace(self._poller(job).log(job, start, most), attempt=1)
        return whose.log(job, start, most, attempt)

    # Changing.

    def submit_document(self, document: dict[str, Any]) -> Sequence[int]:
        """Queues the jobs in a job file's document; raises Denied unless the caller may, and the
        settings allow it."""
        if (refused := refusal_for(self._who, Action.SUBMIT, is_own=True)) is not None:
            raise refused
        why = self._why_not()
        if why is not None:
            raise Denied(why, hint="in a terminal: andon submit -- COMMAND")
        return self._submit(document)

    def act(self, act: JobAct, words: Sequence[JobWord]) -> list[JobOutcome]:
        """Changes the caller's own jobs, never those of another user; a server of root does it as
        that user."""
        whose, action = self._named or self._whose.user, _ACTIONS.get(act, Action.MOVE)
        refused = refusal_for(self._who, action, self._who.user == whose, whose)
        if refused is not None:
            raise refused
        return super().act(act, words)

    def acted(self, act: JobAct, job: JobWord) -> Sequence[JobOutcome]:
        whose = self._whose
        if isinstance(job, str):
            self._own_on_cluster(self.view(job))
            return self._poller(job).act(act, [job])
        if act is JobAct.REMOVE:
            raise Invalid("a server deletes no jobs", hint="on its machine: andon jobs rm")
        if whose is not self._own and whose.user != self._who.user:
            raise Denied(
                f"a server changes the jobs of {whose.user} only for {whose.user}",
                hint="what runs ends with its lease: andon release ID",
            )
        return whose.act(act, [job])

    # Users.

    @property
    def _whose(self) -> OwnDesk:
        """The jobs of this machine that a number alone means."""
        user = self._user()
        return self._own if user is None else user.jobs

    def _user(self) -> UserNode | None:
        """Returns the node of the named user, or of the caller; None for the server's own user."""
        sight, user = self._sight, self._named
        if not user:
            own = sight.uid is not None and self._users is not None and not sight.everything
            return self._users.of(sight.uid) if own and self._users and sight.uid else None
        if user == self.user:
            return None
        if not sight.everything and user != sight.user:
            raise Denied(f"the jobs of {user[:60]} are for {user[:60]} and root", hint="andon jobs")
        found = None if self._users is None else self._users.named(user)
        if found is None:
            raise Gone(
                f"no jobs of {user[:60]} are known here",
                hint="a server of root knows those who signed in, hold or wait for GPUs",
            )
        return found

    # Clusters.

    def _on_clusters(self) -> JobListing:
        pages = [one.page() for one in self._clusters.values()]
        return listing_of(pages) if pages else JobListing(())

    def _poller(self, label: str) -> ClusterPoller:
        found = self._clusters.get(cluster_in(label))
        if found is None:
            raise Gone(f"there is no job {label[:80]}", hint="to list them: andon jobs --all")
        return found

    def _cluster_job(self, label: str, user: str) -> JobView:
        """Returns a job of a cluster as it is shown; Gone unless it is on the caller's list."""
        found = [one for one in self._poller(label).find([label]).views if one.label == label]
        if not found or (found[0].user != user and not self._sight.everything):
            raise Gone(f"there is no job {label[:80]}", hint="to list them: andon jobs --all")
        return self.seen(found[0])

    def _own_on_cluster(self, view: JobView) -> JobView:
        """Refuses jobs of others: root reads no file that another user names."""
        if view.user != self.user:
            raise Denied(
                f"a server of {self.user} does this only for jobs of {self.user}",
                hint=f"in a terminal of {view.user}: andon logs {sh(view.label)}, andon cancel",
            )
        return view

    def _queue(self) -> tuple[QueuePlace, ...]:
        try:
            found = self._book()
        except AndonError:
            return ()
        if found is None:
            return ()
        return tuple(
            QueuePlace(
                row.position, row.user, row.gpus, row.memory_bytes, row.since, row.jobs_behind, why
            )
            for row, why in zip(found.waiting, queue_reasons(found), strict=True)
        )


def _merged(here: Sequence[JobView], there: Sequence[JobView]) -> Sequence[JobView]:
    """Returns both, oldest first; jobs of this machine stay in the order of their numbers."""
    numbered = sorted(here, key=lambda view: view.number)
    if not there:
        return numbered
    return sorted([*numbered, *there], key=lambda view: view.submitted_at)


def tail_after(part: LogPart, start: int | None) -> LogPart:
    """Returns the end of an output from a position on; from an earlier one it has whole lines."""
    if start is not None and part.start <= start <= part.end:
        text = part.text.encode()[start - part.start :].decode(errors="replace")
        return replace(part, start=start, text=text)
    if part.start and "\n" in part.text:
        cut, _, rest = part.text.partition("\n")
        return replace(part, start=part.start + len(f"{cut}\n".encode()), text=rest)
    return part


def counts_of(views: Sequence[JobView]) -> JobCounts:
    waiting = sum(one.state in WAITS for one in views)
    running = sum(one.state is JobState.RUNNING for one in views)
    return JobCounts(waiting, running, sum(one.state.is_settled for one in views))


def _is_wanted(view: JobView, state: str) -> bool:
    if state == "active":
        return not view.state.is_settled
    return not state or view.state.value == state
