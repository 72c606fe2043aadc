"""Jobs of clusters as every view shows them, beside those of this machine."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from andon.jobs.rules.polling import UNCONFIRMED_SECONDS, UNWATCHED_SECONDS, is_fresh
from andon.jobs.rules.views import count_text, shown_params
from andon.model.codec import Name, Text, Time
from andon.model.job import SEPARATOR
from andon.model.job.cluster import ClusterJob, ClusterNode, SubmissionNote
from andon.model.job.facts import JobState, JobView
from andon.model.job.spec import JobSpec
from andon.model.redaction import redact
from andon.units import human_seconds, valid_text

PAGE_SCHEMA = "andon.cluster-page/1"
_SILENT = " does not answer"
_SENT = (15, 9)  # SIGTERM and SIGKILL, where the job ran
"""The signals with which a cancel ends a process."""


class ClusterPage(Struct, frozen=True):
    """What is known of one cluster's jobs, and what is wrong if it does not answer."""

    name: Name
    tried: Time = 0.0  # when it was last asked
    at: Time | None = None  # when it last answered; None: never
    jobs: tuple[ClusterJob, ...] = ()  # as of then
    failing_since: Time | None = None
    trouble: Text | None = None  # why it does not answer; None while it does
    invalid: Text | None = None  # what is wrong with a job that is left out
    identity: Text = ""  # of the server, and of the user whom it answers
    nodes: tuple[ClusterNode, ...] | None = None  # if jobs waited for their GPUs
    nodes_at: Time = 0.0

    @property
    def ids(self) -> set[str | None]:
        """Returns the ids of its jobs and arrays."""
        return {id_ for job in self.jobs for id_ in (job.id, job.array)}

    def answered(
        self, jobs: Iterable[ClusterJob], invalid: str | None, now: float
    ) -> "ClusterPage":
        return ClusterPage(
            self.name, now, now, tuple(jobs), None, None, invalid, self.identity,
            self.nodes, self.nodes_at,
        )  # fmt: skip

    def knows_nodes(self, jobs: Iterable[ClusterJob], now: float) -> bool:
        """Whether the nodes that it has still explain these jobs: the jobs are the same, and the
        nodes are recent."""
        same = {(one.id, one.state) for one in self.jobs} == {(one.id, one.state) for one in jobs}
        known = same and self.nodes is not None
        return known and is_fresh(self.nodes_at, now, UNWATCHED_SECONDS)

    def failed(self, trouble: str, now: float) -> "ClusterPage":
        since = now if self.failing_since is None else self.failing_since
        return replace(self, tried=now, failing_since=since, trouble=trouble)


def page_line(page: ClusterPage, now: float, clock: str) -> str | None:
    """The line at the foot of a list about a cluster that does not answer, or not as it should;
    `clock` is the local time of its last answer. None while all is well."""
    if page.trouble is None:
        if page.invalid is None:
            return None
        return f"{page.name}: not all its jobs are shown, because {page.invalid}"
    known = "its jobs are not known" if page.at is None else f"its jobs are as of {clock}"
    since = now if page.failing_since is None else page.failing_since
    if page.at is not None and since - page.at <= UNWATCHED_SECONDS:
        since = page.at  # else nobody polled for so long that it may have answered
    elif now - since < 1.0:
        return f"{page.name}: {page.trouble}; {known}"
    lasted = human_seconds(now - since)
    silent = page.trouble.removesuffix(_SILENT)
    if silent != page.trouble:
        return f"{page.name}: {silent} has not answered for {lasted}; {known}"
    return f"{page.name}: no answer for {lasted} ({page.trouble}); {known}"


def named(cluster: str, job: str) -> str:
    """Returns the name of a cluster's job: `lab:4711`."""
    return f"{cluster}{SEPARATOR}{job}"


def ids_of(view: JobView) -> list[str]:
    """Returns the ids that name a job: its own, and its array's."""
    own = view.engine_id or ""
    return [own] if view.array_index is None else [own, own.rpartition("_")[0]]


def cluster_views(page: ClusterPage, notes: Sequence[SubmissionNote]) -> list[JobView]:
    """Returns the jobs of a cluster; submitted jobs that it does not list come last, with their
    noted end."""
    own = [one for one in notes if one.cluster == page.name and _is_same(page, one)]
    labels = {one.submission.label: one for one in own}
    ends = {end.id: end for note in labels.values() for end in note.ends}
    unlisted = ends.keys() - {job.id for job in page.jobs}
    jobs = [_as_known(job, ends) for job in page.jobs]
    jobs += [end for id_, end in ends.items() if id_ in unlisted]
    cancelled = {end.id for note in labels.values() for end in note.ends if _is_cancel(end)}
    jobs = [_as_cancelled(job) if job.id in cancelled else job for job in jobs]
    known = {name for job in jobs for name in (job.id, job.array, job.label)}
    missing = [
        _job_of(page, note)
        for label, note in labels.items()
        if label not in known and (note.id is None or note.id not in known)
    ]
    return [view_of(page.name, job, labels.get(job.label or "")) for job in (*jobs, *missing)]


def _is_same(page: ClusterPage, note: SubmissionNote) -> bool:
    """Whether a page is of the server that a job was sent to; True where either is unknown."""
    return not page.identity or not note.identity or page.identity == note.identity


def _as_known(job: ClusterJob, ends: Mapping[str, ClusterJob]) -> ClusterJob:
    known = ends.get(job.id) if job.state.is_settled else None
    return job if known is None or known.ended is None else known


def _is_cancel(end: ClusterJob) -> bool:
    """Whether it is the note of a cancellation, which has no end time."""
    return end.state is JobState.CANCELLED and end.ended is None


def _as_cancelled(job: ClusterJob) -> ClusterJob:
    """Returns a job that andon cancelled as CANCELLED without an exit code, which clusters report
    in different ways; a job that had ended by itself is unchanged."""
    was_cancelled = job.state is JobState.CANCELLED
    killed = (job.signal or (job.exit_code or 0) - 128) in _SENT
    if not was_cancelled and not (job.state is JobState.FAILED and killed):
        return job
    reason = job.reason if was_cancelled else "cancelled"
    return replace(job, state=JobState.CANCELLED, exit_code=None, signal=None, reason=reason)


def _job_of(page: ClusterPage, note: SubmissionNote) -> ClusterJob:
    """Returns a job that was submitted but that the cluster does not list."""
    spec, label = note.submission.job, note.submission.label
    patience = UNCONFIRMED_SECONDS if note.id is None else 0.0
    answered = page.at is not None and page.at > note.at + patience
    if not answered:
        reason = f"{page.name} has not confirmed it yet"
    elif note.id is None:
        reason = f"it did not reach {page.name}: submit it again"
    else:
        reason = f"{page.name} no longer knows it: how it ended is not known"
    state = JobState.LOST if answered else JobState.WAITING
    id_ = note.id or label
    return ClusterJob(id_, spec.name, state, spec.user, note.at, reason=reason, label=label)


def view_of(cluster: str, job: ClusterJob, note: SubmissionNote | None = None) -> JobView:
    """Returns one job of a cluster; what it does not know about a job is taken from the note."""
    ran = None if job.started is None or job.ended is None else job.ended - job.started
    ended_badly = job.state.is_settled and job.state is not JobState.SUCCEEDED
    found = JobView(
        number=0,
        label=named(cluster, job.id),
        name=job.name,
        state=job.state,
        command=job.command or "",
        folder="",
        user=job.user,
        submitted_at=job.submitted_at,
        gpus="" if job.gpus is None else str(job.gpus),
        reason=job.reason,
        attempts=0 if job.started is None else 1,
        for_seconds=job.for_seconds,
        array_index=job.array_index,
        expected_start=job.expected_start,
        run=job.run,
        started=job.started,
        ended=job.ended,
        seconds=None if ran is None else max(0.0, ran),
        exit_code=job.exit_code,
        signal=job.signal,
        error=job.reason if ended_badly else None,
        engine=cluster,
        engine_id=job.id,
        where=job.where,
    )
    return found if note is None else _with_note(found, note.submission.job)


_redacted = lru_cache(64)(redact)
"""Redacts a command; cached, because all elements of an array have the same one."""


def _with_note(view: JobView, spec: JobSpec) -> JobView:
    return replace(
        view,
        command=view.command or _redacted(spec.argv),
        folder=valid_text(spec.folder),
        gpus=view.gpus or count_text(spec.request),
        for_seconds=spec.for_seconds if view.for_seconds is None else view.for_seconds,
        tags=spec.tags,
        group=spec.group,
        params=shown_params(spec),
    )
