"""The desk of a cluster: what every kind shares, around an adapter that translates."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar, cast

from msgspec.structs import replace

from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.jobs.clusters.answers import cached_page, forget_answer, keep_page, valid
from andon.jobs.clusters.asking import all_within, within
from andon.jobs.clusters.notes import (
    keep_ends,
    known_end,
    note_cancelled,
    recent_notes,
    submit_once,
    submit_together,
)
from andon.jobs.clusters.run_notes import forgotten_jobs, with_run
from andon.jobs.rules.cluster_views import (
    ClusterPage,
    cluster_views,
    ids_of,
    named,
    page_line,
)
from andon.jobs.rules.polling import FRESH_SECONDS, PAST_SECONDS, is_fresh
from andon.jobs.rules.shortage import holders_reason, shortage_reason
from andon.jobs.rules.views import JobListing
from andon.model.job import HOST, is_host
from andon.model.job.cluster import (
    ClusterJob,
    ClusterNode,
    ClusterState,
    NotSent,
    SubmissionNote,
)
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
)
from andon.model.job.facts import JobState, JobView
from andon.ports import Cluster, Foreground, Offering, Previewing
from andon.units import human_seconds

T = TypeVar("T")
END_REQUESTED = "is asked to end"
NOT_KNOWN = "andon jobs lists those that have not ended, or ended within a day"
QUEUE_ONLY = "andon jobs show, wait, cancel, logs and why work on it"


class ClusterDesk:
    """Implements JobDesk: a configured cluster, its time limit, and how it is opened."""

    poll_seconds = FRESH_SECONDS

    def __init__(
        self,
        name: str,
        timeout_seconds: float,
        open_: Callable[[], Cluster],
        read_nodes: Callable[[Sequence[ClusterNode]], Sequence[ClusterNode]] = list,
    ) -> None:
        """`read_nodes` adds what andon itself reads on each node."""
        self.name, self.timeout_seconds, self.open = name, timeout_seconds, open_
        self.read_nodes, self._seen = read_nodes, 0.0

    @property
    def parts(self) -> "Sequence[ClusterDesk]":
        """The desks whose jobs a list of this one shows."""
        return [self]

    @property
    def able(self) -> frozenset[Able]:
        return self.open().able

    def refusal(self, able: Able, option: str) -> Invalid:
        opened = self.open()
        if able in opened.instead:
            return Invalid(f"{opened.title} does not take {option}", hint=opened.instead[able])
        return Invalid(f"{option} is for jobs on this machine", "leave it out, or use --on here")

    def ask(self, question: Callable[[Cluster], T]) -> T:
        """Makes a call to the cluster within its time limit; an error names the cluster."""
        try:
            return within(self.timeout_seconds, self.name, lambda: question(self.open()))
        except AndonError as error:
            if error.reason.startswith(f"{self.name}:"):
                raise
            raise type(error)(f"{self.name}: {error.reason}", error.hint, error.mistakes) from error

    # Submitting.

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> list[Accepted]:
        sent = dict[str, list[str]]()  # a name is all jobs of a sweep
        for one in jobs:  # all are checked before the first is sent
            self._with_ids(one, sent)
            sent.setdefault(one.job.name, []).append(named(self.name, "?"))
        if dry:
            return [Accepted(one, "", preview=self._preview(one, sent)) for one in jobs]
        out, shows, sent = list[Accepted](), self._previewing(), {}
        for some in self._batches(jobs):
            try:
                labels = self._submit([self._with_ids(one, sent) for one in some])
            except AndonError as error:
                if out:
                    before = ", ".join(accepted.label for accepted in out)
                    why = f"{error.reason}; submitted before it: {before}"
                    raise type(error)(why, error.hint, error.mistakes) from error
                raise
            for one, label in zip(some, labels, strict=True):
                sent.setdefault(one.job.name, []).append(label)
                out.append(Accepted(one, label, note="" if shows is None else shows.placed(one)))
        return out

    def _batches(self, jobs: Sequence[Submission]) -> Iterable[Sequence[Submission]]:
        """Returns the jobs in parts that are submitted in a call each."""
        cluster, names = self.open(), {one.job.name for one in jobs}
        linked = any(names & {*one.after, *one.after_any} for one in jobs)
        if len(jobs) > 1 and not linked and isinstance(cluster, Offering):
            return cluster.batches(jobs)
        return [[one] for one in jobs]

    def _submit(self, some: Sequence[Submission]) -> list[str]:
        def handed_in(cluster: Cluster) -> list[str]:
            if len(some) > 1:
                return submit_together(self.name, cast("Offering", cluster), some)
            return [submit_once(self.name, cluster, one) for one in some]

        try:
            jobs = self.ask(handed_in)
        except NotSent:
            raise
        except Unavailable as error:
            reason = f"{error.reason}; whether it took the job is not known: see andon jobs"
            raise Unavailable(reason, error.hint) from error
        finally:
            forget_answer(self.name)
        return [named(self.name, job) for job in jobs]

    def _preview(self, one: Submission, sent: Mapping[str, Sequence[str]]) -> str:
        resolved, shows = self._with_ids(one, sent), self._previewing()
        return "" if shows is None else self.ask(lambda _: shows.preview(resolved))

    def _previewing(self) -> Previewing | None:
        return cast("Previewing", self.open()) if Able.PREVIEW in self.able else None

    def host_for(self, submission: Submission) -> "tuple[ClusterDesk, str]":
        """Returns the desk that a job goes to, and why if there was a choice."""
        return self, ""

    def foreground(self) -> Foreground | None:
        """Returns what runs a job on this cluster at this terminal; None if it cannot."""
        return cast("Foreground", self.open()) if Able.FOREGROUND in self.able else None

    def _with_ids(self, one: Submission, sent: Mapping[str, Sequence[str]]) -> Submission:
        """Returns the submission with the ids of the jobs that it comes after."""
        return replace(
            one, after=self._ids(one.after, sent), after_any=self._ids(one.after_any, sent)
        )

    def _ids(self, refs: Sequence[str], sent: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        labels = [label for word in refs for label in sent.get(word, [word])]
        prefix = named(self.name, "")
        if wrong := [word for word in labels if not word.startswith(prefix) or word == prefix]:
            raise Invalid(
                f"a job on {self.name} can wait only for jobs there, not for {wrong[0][:60]!r}",
                hint=f"name them as andon jobs does: {prefix}ID",
            )
        return tuple(dict.fromkeys(word.removeprefix(prefix) for word in labels))

    # Reading.

    def nodes(self) -> list[ClusterNode]:
        """Returns its machines with GPUs, by name."""
        return self.ask(lambda cluster: list(self.read_nodes(cluster.nodes())))

    def refreshed(
        self, page: ClusterPage, everyone: bool = False, clock: Callable[[], float] = time.time
    ) -> ClusterPage:
        """Asks the cluster for its jobs that have not ended, or ended lately, with their records;
        returns the page with them. The reason of jobs that lack GPUs has the same form for every
        cluster."""
        cluster, since = self.open(), clock() - PAST_SECONDS
        found = [with_run(cluster.notes, job) for job in cluster.jobs(since, everyone)]
        found = [*forgotten_jobs(cluster.notes, since, {job.id for job in found}), *found]
        jobs, invalid = valid(found)
        short = any(one.short_of_gpus and one.gpus for one in jobs)
        if not short or not page.knows_nodes(jobs, clock()):
            page = replace(page, nodes=None, nodes_at=clock())
        if short and page.nodes is None:
            with suppress(AndonError):  # the cluster's own reason is used then
                page = replace(page, nodes=tuple(self.read_nodes(cluster.nodes())))
        jobs = jobs if page.nodes is None else _explained(jobs, page.nodes)
        return page.answered(jobs, invalid, clock())

    def latest(self, holds: Callable[[ClusterPage], bool] = lambda _: True) -> ClusterPage:
        """Returns the last answer, whoever asked for it, so that several that poll share one. The
        cluster is asked at the first call, if that answer is old or was returned here before, and
        if `holds` is false for it."""
        page, first = self.page(), not self._seen
        is_new = page.tried > self._seen and is_fresh(page.tried, time.time())
        if first or not is_new or page.trouble is not None or not holds(page):
            page = self.ask(lambda _: self.refreshed(self.page()))
            if not first:
                keep_page(page)
        self._seen = page.tried
        return page

    def page(self, everyone: bool = False) -> ClusterPage:
        """Returns the cached answer."""
        return ClusterPage(self.name) if everyone else cached_page(self.name, self.identity)

    @property
    def identity(self) -> str:
        """Names the server and the user whom its answers are for; empty if unknown."""
        try:
            return self.open().identity
        except AndonError:
            return ""

    def listing(self, everyone: bool = False) -> JobListing:
        return list_together([self], everyone)

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> Found:
        """Returns the named jobs; an array's id names all its elements."""
        wanted = {self.id_of(word) for word in refs}
        page = self.latest(lambda page: wanted <= page.ids)
        known = {job.id for job in page.jobs}
        listed = listing_of([page]).views
        ended = [one for one in listed if one.state.is_settled and one.state is not JobState.LOST]
        return self.found(refs, [*(one for one in listed if one.engine_id in known), *ended])

    def found(self, refs: Sequence[JobName], views: Sequence[JobView]) -> Found:
        """Returns the views that are named, and an error for each reference that names none."""
        found, errors = dict[str, JobView](), list[AndonError]()
        known = dict[str, list[JobView]]()
        for view in views:
            for id_ in ids_of(view):
                known.setdefault(id_, []).append(view)
        for word in refs:
            jobs = known.get(self.id_of(word), [])
            if not jobs:
                why = f"{self.name} knows no job {self.id_of(word)[:60]} of yours"
                errors.append(Gone(why, hint=NOT_KNOWN))
            found |= {one.label: one for one in jobs}
        return Found(list(found.values()), errors)

    def view(self, job: JobName) -> JobView:
        found, errors = self.find([job])
        for error in errors:
            raise error
        view = found[0]
        if view.state.is_settled or view.started is not None:
            return view
        reasons = self.reasons(view.label)
        lines = [line for one in reasons for line in (one.text, one.advice) if line]
        return replace(view, waiting_details=tuple(one for one in lines if one != view.reason))

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        id_ = self.id_of(job)
        part = self.ask(lambda cluster: cluster.log(id_, start, most))
        if part.ended and any(
            one.id == id_ and not one.state.is_settled for one in self.page().jobs
        ):
            forget_answer(self.name)  # after the end of its output no list shows it as running
        return part

    def reasons(self, job: JobName) -> Sequence[JobReason]:
        return self.ask(lambda cluster: self._reasons(cluster, self.id_of(job)))

    def _reasons(self, cluster: Cluster, job: str) -> Sequence[JobReason]:
        now = time.time()
        try:
            found = with_run(cluster.notes, cluster.job(job))
        except Gone:
            if (end := known_end(self.name, job)) is None:
                raise
            found = end
        if found.state is JobState.SUCCEEDED or (
            found.state is JobState.RUNNING and not found.reason
        ):
            return []
        why = JobReason(found.reason or f"{cluster.title} gives no reason", found.advice)
        holders = None
        if found.short_of_gpus and found.gpus:
            with suppress(AndonError):
                nodes = self.read_nodes(cluster.nodes())
                why = shortage_reason(found, nodes, local_time)
                holders = holders_reason(nodes, now)
        if (start := found.expected_start) is not None and start > now:
            starts = f"{cluster.title} expects to start it in {human_seconds(start - now)}"
            why = JobReason(why.text, "; ".join(filter(None, (why.advice, starts))))
        return [why] if holders is None else [why, holders]

    def id_of(self, job: JobName) -> str:
        return str(job).removeprefix(named(self.name, ""))

    # Changing.

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        ids = [self.id_of(word) for word in refs]
        if act is not JobAct.CANCEL:
            labels = [named(self.name, one)[:80] for one in ids]
            why = "{} is a job of a cluster, which has its own queue"
            return [JobOutcome(one, error=Invalid(why.format(one), QUEUE_ONLY)) for one in labels]
        try:
            self.ask(lambda cluster: cluster.cancel(ids))
        except Gone as error:
            if len(ids) > 1:  # one by one: each gets its own result
                return [one for id_ in ids for one in self.act(act, [id_])]
            return [JobOutcome(named(self.name, ids[0]), error=error)]
        except AndonError as error:
            return [JobOutcome(named(self.name, one), error=error) for one in ids]
        finally:
            forget_answer(self.name)
        note_cancelled(self.name, ids)
        return [JobOutcome(named(self.name, one), END_REQUESTED) for one in ids]


def _explained(jobs: Sequence[ClusterJob], nodes: Sequence[ClusterNode]) -> list[ClusterJob]:
    """Sets the reason of jobs that wait for GPUs to what they lack; once for equal jobs, as there
    may be thousands."""
    alike = {(one.gpus, one.reason): one for one in jobs if one.short_of_gpus and one.gpus}
    why = {key: shortage_reason(one, nodes, local_time).text for key, one in alike.items()}
    return [
        replace(one, reason=why[one.gpus, one.reason]) if one.short_of_gpus and one.gpus else one
        for one in jobs
    ]


def list_together(
    clusters: Sequence[ClusterDesk],
    everyone: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
) -> JobListing:
    """Returns the jobs of all clusters. Those whose last answer is old are asked, all at the same
    time, and `meanwhile` is called while they are. With `everyone`, the jobs of all users, which
    are not cached."""
    now = time.time()
    pages = {one.name: one.page(everyone) for one in clusters}
    due = [one for one in clusters if not is_fresh(pages[one.name].tried, now)]
    limit = max((one.timeout_seconds for one in due), default=0.0)
    polls = {one.name: partial(one.refreshed, pages[one.name], everyone) for one in due}
    for name, found in all_within(limit, polls, meanwhile).items():
        if isinstance(found, AndonError):
            found = pages[name].failed(found.reason, time.time())
        pages[name] = found
        if not everyone:
            keep_page(pages[name])
    return listing_of(list(pages.values()))


def listing_of(pages: Sequence[ClusterPage], now: float | None = None) -> JobListing:
    """Returns the pages as they are shown, oldest job first, elements of an array by index."""
    now = time.time() if now is None else now
    notes = recent_notes(now - PAST_SECONDS)
    for page in pages:
        keep_ends([one for one in notes if one.cluster == page.name], page.jobs)
    views = [view for page in pages for view in _known_views(page, notes)]
    lines = [page_line(page, now, local_time(page.at)) for page in pages]
    return JobListing(
        tuple(sorted(views, key=lambda view: (view.submitted_at, view.array_index or 0))),
        notes=tuple(line for line in lines if line is not None),
        clusters=tuple(
            ClusterState(one.name, one.at, one.failing_since, one.trouble) for one in pages
        ),
    )


def _known_views(page: ClusterPage, notes: Sequence[SubmissionNote]) -> list[JobView]:
    """Returns the jobs of a cluster. A host that does not answer may be switched off: what its jobs
    do is not known."""
    views = cluster_views(page, notes)
    if page.failing_since is None or not is_host(page.name):
        return views
    since = f"not known since {local_time(page.at)}" if page.at else "not known"
    reason = f"{since}: {page.name.removeprefix(HOST)} does not answer"
    return [
        one
        if one.state.is_settled
        else replace(one, state=JobState.UNKNOWN, reason=reason, expected_start=None)
        for one in views
    ]


def local_time(at: float | None) -> str:
    """Returns `12:03`, and the day if that was another one."""
    if at is None:
        return ""
    then, today = time.localtime(at), time.localtime()
    same = then[:3] == today[:3]
    return time.strftime("%H:%M" if same else "%a %d %b %H:%M", then)
