"""The jobs that a server shows, of this machine and of clusters: its own user's; a server of root
shows each user their own."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from andon.access.roles import ALL_SEEING, Identity, Sight, sight_of
from andon.errors import AndonError, Denied, Gone
from andon.jobs.clusters.desk import listing_of
from andon.jobs.clusters.poller import ClusterPoller
from andon.jobs.rules.views import JobListing
from andon.leases.rules.queue_reasons import queue_reasons
from andon.model.job.cluster import ClusterState
from andon.model.job.desk import SEPARATOR, JobAct, JobOutcome, LogPart
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import LeaseList
from andon.node.seen.job_schemas import (
    JobCounts,
    JobPage,
    PageScope,
    QueuePlace,
)
from andon.node.seen.sights import not_seen
from andon.node.watched.users import SharedFiles, UserFiles
from andon.runs.rules.matching import HIDDEN_NAME
from andon.units import sh

MOST_LISTED = 1000
LOG_BYTES = 64 * 1024
WAITS = (JobState.WAITING, JobState.HELD, JobState.LATER)


class UsersDesk(Protocol):
    """One user's jobs on this machine: a queue, what a reader tells of another user's, the demo's,
    or those that a node reported. A number means exactly that job."""

    user: str

    def listing(self) -> JobListing: ...

    def view(self, job: int) -> JobView: ...

    def log(
        self, job: int, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart: ...

    def act(self, act: JobAct, words: Sequence[int]) -> Sequence[JobOutcome]: ...


class ListedJobs(Struct, frozen=True):
    """What one caller sees: the jobs, oldest first, and what is missing."""

    views: Sequence[JobView]
    paused: bool
    scope: PageScope
    note: str | None = None
    clusters: tuple[ClusterState, ...] = ()


class ServerJobs:
    """The jobs of a server; every call may block, so callers use a thread of their own.
    `why_not` returns why none may be submitted over the network, or None. `users` is set if root
    runs the server."""

    def __init__(
        self,
        own: UsersDesk,
        book: Callable[[], LeaseList | None],
        why_not: Callable[[], str | None],
        submit: Callable[[dict[str, Any]], Sequence[int]],
        users: SharedFiles | None = None,
        clusters: Sequence[ClusterPoller] = (),
    ) -> None:
        self._own, self.user, self._book = own, own.user, book
        self._clusters = {one.name: one for one in clusters}
        self._why_not, self._submit, self._users = why_not, submit, users

    def unfinished(self) -> list[JobView]:
        """Returns the jobs that wait or run here, for a hub."""
        views = self.listed(ALL_SEEING).views
        return [one for one in views if one.ended is None and one.engine is None]

    def listed(self, sight: Sight, user: str = "") -> ListedJobs:
        """A user's own jobs, everyone's for an owner, and the server user's for anyone else."""
        files = self._files(sight, user)
        if files is not None or not sight.everything or self._users is None or user:
            whose = files or self._own
            found, scope = whose.listing(), PageScope.SERVER if files is None else PageScope.OWN
            on = self._on_clusters()
            own = [one for one in on.views if one.user == whose.user]
            return ListedJobs(_merged(found.views, own), found.paused, scope, clusters=on.clusters)
        found, notes = self._own.listing(), list[str]()
        views = list(found.views)
        for one in self._users.known():
            try:
                views += one.listing().views
            except AndonError as error:
                notes.append(error.reason)
        on, note = self._on_clusters(), "; ".join(notes) or None
        views += on.views
        views.sort(key=lambda view: (view.submitted_at, view.user, view.number))
        return ListedJobs(views, found.paused, PageScope.EVERYONE, note, on.clusters)

    def page(self, sight: Sight, state: str = "", limit: int = 100, user: str = "") -> JobPage:
        found = self.listed(sight, user)
        wanted = [one for one in reversed(found.views) if _is_wanted(one, state)]
        notes = [] if found.note is None else [found.note]
        if len(wanted) > limit:
            notes.append(f"{len(wanted):,} jobs; {limit:,} are shown")
        whose = sight.user if found.scope is PageScope.OWN else self.user
        whole = found.scope is not PageScope.SERVER or sight.shows(self.user)
        return JobPage(
            at=time.time(),
            user=user or whose or self.user,
            scope=found.scope,
            shared=self._users is not None,
            whole=whole,
            paused=found.paused,
            may_submit=self._why_not() is None,
            counts=counts_of(found.views),
            jobs=tuple(shown_to(sight, one) for one in wanted[:limit]),
            queue=self._queue(),
            clusters=found.clusters if whole else (),
            note="; ".join(notes) or None,
        )

    def details(self, sight: Sight, number: int | str, user: str = "") -> JobView:
        files = self._files(sight, user)
        try:
            if isinstance(number, str):
                return self._cluster_job(sight, number, (files or self._own).user)
            return shown_to(sight, (files or self._own).view(number))
        except Gone as exc:
            if user:
                raise
            shared = self._users is not None
            raise not_seen(f"job {number}", sight, shared, "andon jobs --all") from exc

    def log(
        self,
        sight: Sight,
        number: int | str,
        attempt: int | None,
        start: int | None,
        user: str = "",
    ) -> LogPart:
        """Returns the last part of the output, or what came after `start`."""
        files = self._files(sight, user) or self._own
        on_cluster = isinstance(number, str)
        view = self.details(sight, number, user) if on_cluster else None
        whose = files.user if view is None else self._own_on_cluster(view).user
        if not sight.shows(whose):
            raise Denied(f"the output of a job is for {whose} alone", hint="sign in: andon open")
        if isinstance(number, str):
            return replace(self._poller(number).log(number, start, LOG_BYTES), attempt=1)
        return tail_after(files.log(number, None, LOG_BYTES, attempt), start)

    def act(self, who: Identity, number: int | str, act: JobAct, user: str = "") -> JobOutcome:
        """Cancels, retries, requeues, moves, holds or resumes a job; never one of another user."""
        files = self._files(sight_of(who), user)
        outcomes: Sequence[JobOutcome]
        if isinstance(number, str):
            self._own_on_cluster(self.details(sight_of(who), number, user))
            outcomes = self._poller(number).act(act, [number])
        elif files is not None and files.user != who.user:
            raise Denied(
                f"a server changes the jobs of {files.user} only for {files.user}",
                hint="what runs ends with its lease: andon release ID",
            )
        else:
            outcomes = (files or self._own).act(act, [number])
        (outcome,) = outcomes
        if outcome.error is not None:
            raise outcome.error
        return outcome

    def whose(self, who: Identity, user: str = "") -> str:
        """Returns the user whose job a number alone refers to."""
        return user or (self._files(sight_of(who), "") or self._own).user

    def submit(self, document: dict[str, Any]) -> Sequence[int]:
        """Queues the jobs in a job file's document; raises Denied unless the settings allow it."""
        why = self._why_not()
        if why is not None:
            raise Denied(why, hint="in a terminal: andon submit -- COMMAND")
        return self._submit(document)

    def _files(self, sight: Sight, user: str) -> UserFiles | None:
        """Returns the files of the given user; None for the server's own user."""
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
        found = self._clusters.get(label.partition(SEPARATOR)[0])
        if found is None:
            raise Gone(f"there is no job {label[:80]}", hint="to list them: andon jobs --all")
        return found

    def _cluster_job(self, sight: Sight, label: str, user: str) -> JobView:
        """Returns a job of a cluster as it is shown; Gone unless it is on the caller's list."""
        found = [one for one in self._poller(label).find([label]).views if one.label == label]
        if not found or (found[0].user != user and not sight.everything):
            raise Gone(f"there is no job {label[:80]}", hint="to list them: andon jobs --all")
        return shown_to(sight, found[0])

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
    if not there:
        return here
    return sorted([*here, *there], key=lambda view: view.submitted_at)


def tail_after(part: LogPart, start: int | None) -> LogPart:
    """Returns the end of an output from a position on; from an earlier one it has whole lines."""
    if start is not None and part.start <= start <= part.end:
        text = part.text.encode()[start - part.start :].decode(errors="replace")
        return replace(part, start=start, text=text)
    if part.start and "\n" in part.text:
        cut, _, rest = part.text.partition("\n")
        return replace(part, start=part.start + len(f"{cut}\n".encode()), text=rest)
    return part


def shown_to(sight: Sight, view: JobView) -> JobView:
    """Returns the job without details if the caller may not see its user's commands: only that
    it exists, and its state."""
    if sight.shows(view.user):
        return view
    return replace(
        view, name=HIDDEN_NAME, command=HIDDEN_NAME, folder="", reason=None, error=None,
        record=None, tags=(), waiting_details=(), environment={}, run=None, pid=None, group=None,
        params={}, progress=None,
    )  # fmt: skip


def counts_of(views: Sequence[JobView]) -> JobCounts:
    waiting = sum(one.state in WAITS for one in views)
    running = sum(one.state is JobState.RUNNING for one in views)
    return JobCounts(waiting, running, len(views) - waiting - running)


def _is_wanted(view: JobView, state: str) -> bool:
    if state == "active":
        return not view.state.is_settled
    return not state or view.state.value == state
