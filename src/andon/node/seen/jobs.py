"""The jobs of a server, of this machine and of clusters, as one caller may see and change them. A
server of root shows each user their own jobs."""

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from andon.access.roles import Action, Identity, Sight, refusal_for
from andon.errors import AndonError, Denied, Gone, Invalid
from andon.jobs.rules.views import JobListing, listing_of_page
from andon.leases.rules.queue_reasons import queue_reasons
from andon.model.job.desk import JobAct, JobName, JobOutcome, LogPart
from andon.model.job.facts import WAITS, JobState, JobView
from andon.node.exact_desk import ExactDesk, OwnDesk
from andon.node.job_schemas import JobCounts, JobPage, PageScope, QueuePlace
from andon.node.seen.sights import not_seen
from andon.node.served import JobsToShow
from andon.node.watched.leases import ServedLeases
from andon.runs.rules.matching import HIDDEN_NAME
from andon.units import sh

MOST_LISTED = 1000
LOG_BYTES = 64 * 1024
_ACTIONS = {
    JobAct.CANCEL: Action.CANCEL,
    JobAct.RETRY: Action.RETRY,
    JobAct.REQUEUE: Action.REQUEUE,
}


class SeenJobs(ExactDesk):
    """One caller's view of a server's jobs; every call may block. `user` names another user, whose
    jobs are shown if the caller may see them."""

    def __init__(
        self, jobs: JobsToShow, leases: ServedLeases, who: Identity, sight: Sight, user: str = ""
    ) -> None:
        self._jobs, self._leases, self.user = jobs, leases, jobs.user
        self._who, self._sight, self._named = who, sight, user

    def of(self, user: str) -> "SeenJobs":
        return SeenJobs(self._jobs, self._leases, self._who, self._sight, user)

    # Reading.

    def listed(self) -> tuple[JobListing, PageScope]:
        """Returns the caller's own jobs, everyone's for an owner, and the server user's for anyone
        else, oldest first, each as this caller sees it."""
        found, scope = self._found(self._desk)
        return replace(found, views=tuple(map(self._seen, found.views))), scope

    def _found(self, desk: OwnDesk) -> tuple[JobListing, PageScope]:
        jobs = self._jobs
        scope = jobs.scope if desk is jobs.own else PageScope.OWN
        if jobs.users is not None and self._sight.everything and not self._named:
            scope = PageScope.EVERYONE
        if scope in (PageScope.EVERYONE, PageScope.NODE):
            found = jobs.listing()
            return replace(found, views=tuple(sorted(found.views, key=_age))), scope
        found, on = desk.listing(), jobs.on_clusters()
        there = [one for one in on.views if one.user == desk.user]
        # Without those of clusters they stay in the order of their numbers.
        views = sorted([*found.views, *there], key=_age if there else lambda one: one.number)
        return JobListing(tuple(views), found.paused, found.notes, on.clusters), scope

    def page(self, state: str = "", limit: int = 100) -> JobPage:
        """Returns the newest jobs, in a state if one is named, and the queue of the machine."""
        desk = self._desk
        found, scope = self._found(desk)
        wanted = [one for one in reversed(found.views) if _is_wanted(one, state)]
        notes = list(found.notes)
        if len(wanted) > limit:
            notes.append(f"{len(wanted):,} jobs; {limit:,} are shown")
        whole = self._sight.shows(desk.user)
        return JobPage(
            at=time.time(),
            user=desk.user,
            scope=scope,
            shared=self._jobs.users is not None,
            whole=whole,
            paused=found.paused,
            may_submit=self._jobs.why_not() is None,
            counts=counts_of(found.views),
            jobs=tuple(map(self._seen, wanted[:limit])),
            queue=self._queue(),
            clusters=found.clusters if whole else (),
            note="; ".join(notes) or None,
        )

    def listing(self, everyone: bool = False) -> JobListing:
        page = self.page(limit=MOST_LISTED)
        return listing_of_page(page.jobs, page.paused, page.clusters, page.note)

    def _seen(self, view: JobView) -> JobView:
        """Returns the job without details if the caller may not see its user's commands: only that
        it exists, and its state."""
        if self._sight.shows(view.user):
            return view
        return replace(
            view, name=HIDDEN_NAME, command=HIDDEN_NAME, folder="", reason=None, error=None,
            record=None, tags=(), waiting_details=(), environment={}, run=None, pid=None,
            group=None, params={}, progress=None,
        )  # fmt: skip

    def view(self, job: JobName) -> JobView:
        """Returns one job, of which a number or NAME:ID is the exact name."""
        desk = self._desk
        try:
            if isinstance(job, int):
                return self._seen(desk.view(job))
            found = self._jobs.view(job)
            if found.user != desk.user and not self._sight.everything:
                raise Gone(f"there is no job {job[:80]}", hint="to list them: andon jobs --all")
            return self._seen(found)
        except Gone as exc:
            if self._named:
                raise
            shared = self._jobs.users is not None
            raise not_seen(f"job {job}", self._sight, shared, "andon jobs --all") from exc

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        desk = self._own_on_cluster(job) if isinstance(job, str) else self._desk
        if not self._sight.shows(desk.user):
            whom = f"the output of a job is for {desk.user or 'its user'} alone"
            raise Denied(whom, hint="sign in: andon open")
        return desk.log(job, start, most, attempt)

    # Changing.

    def submit_document(self, document: dict[str, Any]) -> Sequence[int]:
        """Queues the jobs in a job file's document; raises Denied unless the caller may, and the
        settings allow it."""
        if (refused := refusal_for(self._who, Action.SUBMIT, is_own=True)) is not None:
            raise refused
        why = self._jobs.why_not()
        if why is not None:
            raise Denied(why, hint="in a terminal: andon submit -- COMMAND")
        return self._jobs.submit_document(document)

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        """Changes the caller's own jobs, never those of another user; a server of root does it as
        that user."""
        owner, action = self._named or self._desk.user, _ACTIONS.get(act, Action.MOVE)
        refused = refusal_for(self._who, action, self._who.user == owner, owner)
        if refused is not None:
            raise refused
        return super().act(act, refs)

    def acted(self, act: JobAct, job: JobName) -> Sequence[JobOutcome]:
        desk = self._desk
        if isinstance(job, str):
            return self._own_on_cluster(job).act(act, [job])
        if act is JobAct.REMOVE:
            raise Invalid("a server deletes no jobs", hint="on its machine: andon jobs rm")
        of_another = desk is not self._jobs.own and desk.user != self._who.user
        if of_another and self._jobs.scope is PageScope.SERVER:
            raise Denied(
                f"a server changes the jobs of {desk.user} only for {desk.user}",
                hint="what runs ends with its lease: andon release ID",
            )
        return desk.act(act, [job])

    @property
    def _desk(self) -> OwnDesk:
        """The jobs that a number refers to: those of the named user, else the caller's if the
        server shows everyone their own, else those of the server's user."""
        jobs, sight, named = self._jobs, self._sight, self._named
        if not named and jobs.users is not None and sight.uid is not None and not sight.everything:
            user = jobs.users.of(sight.uid)
            return jobs.own if user is None else user.jobs
        if named in ("", self.user):
            return jobs.own
        if jobs.scope is PageScope.SERVER and not sight.everything and named != sight.user:
            shown = named[:60]
            raise Denied(f"the jobs of {shown} are for {shown} and root", hint="andon jobs")
        if (found := jobs.of(named)) is None:
            raise Gone(
                f"no jobs of {named[:60]} are known here",
                hint="a server of root knows those who signed in, hold or wait for GPUs",
            )
        return found

    def _own_on_cluster(self, job: str) -> JobsToShow:
        """Returns the jobs; raises Denied if this cluster job is not the server user's own."""
        view = self.view(job)
        if view.user != self.user:
            raise Denied(
                f"a server of {self.user} does this only for jobs of {self.user}",
                hint=f"in a terminal of {view.user}: andon logs {sh(view.label)}, andon cancel",
            )
        return self._jobs

    def _queue(self) -> tuple[QueuePlace, ...]:
        try:
            if not self._leases.supported:
                return ()
            found = self._leases.listed()
        except AndonError:
            return ()
        return tuple(
            QueuePlace(
                row.position, row.user, row.gpus, row.memory_bytes, row.since, row.jobs_behind, why
            )
            for row, why in zip(found.waiting, queue_reasons(found), strict=True)
        )


def _age(view: JobView) -> tuple[float, str, int]:
    return view.submitted_at, view.user, view.number


def tail_after(part: LogPart, start: int | None) -> LogPart:
    """Returns the end of an output from a position; if that is further back, only whole lines."""
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
