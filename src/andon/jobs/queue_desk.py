"""The desk of this machine: a user's queue, which is a folder of files."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.errors import AndonError, Gone, Invalid, Unavailable
from andon.jobs.folder import JobsFolder, open_jobs_folder
from andon.jobs.queue import Queue, checked_specs, refuse_too_many, same_as, submit
from andon.jobs.starting import is_dispatched
from andon.model.job import LOCAL
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
from andon.model.job.spec import ArrayPlace, JobSpec

if TYPE_CHECKING:  # `submit` must be quick
    from andon.jobs.rules.views import JobListing
    from andon.leases.rules.eligibility import Labels
    from andon.model.device import Snapshot
    from andon.model.job.facts import JobFacts, JobView

POLL_SECONDS, FRESH_SECONDS = 0.2, 0.5
"""Within the second, what nobody rang the bell for is not read again."""
SLACK_SECONDS = 5.0
STILL_ENDING = "what it left is being removed; see andon jobs"
NOT_DISPATCHED = "nothing of yours starts jobs now: it starts with your next andon jobs or submit"
FOR_CLUSTERS = {Able.ENGINE_OPTIONS, Able.PER_GPU, Able.PREVIEW, Able.FOREGROUND}


class QueueDesk:
    """Implements JobDesk; every call may block. `wake` makes sure that a dispatcher runs; None if
    this process must not start one. `sample` and `labels` are called for requests that not every
    machine can meet, `notify` with a sentence about a name that several jobs have."""

    name, able, poll_seconds = LOCAL, frozenset(Able) - FOR_CLUSTERS, POLL_SECONDS

    def __init__(
        self,
        open_queue: Callable[[], Queue] = Queue,
        user: str = "",
        wake: Callable[[JobsFolder], object] | None = None,
        sample: "Callable[[], Snapshot] | None" = None,
        labels: "Callable[[], Labels]" = dict,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._open, self.user, self._wake = open_queue, user, wake
        self._sample, self._labels, self._notify = sample, labels, notify
        self._queue: Queue | None = None
        self._read, self._changed_at = 0.0, -1
        self._lock = threading.RLock()
        self._found: dict[tuple[JobName, ...], Found] = {}

    # Submitting.

    def refusal(self, able: Able, option: str) -> Invalid:
        return Invalid(f"{option} is for jobs on a cluster", hint="add --on NAME")

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> list[Accepted]:
        batches, names = [list(some) for _, some in groupby(jobs, _batch)], set[str]()
        checked: dict[str, list[JobSpec]] = {}
        for batch in batches:
            checked |= {one.label: self._specs(one, names) for one in batch}
            names.add(batch[0].job.name)
        if dry:
            return [Accepted(one, "") for one in jobs]
        refuse_too_many(open_jobs_folder(), sum(map(len, checked.values())))
        out, named = list[Accepted](), dict[str, tuple[int, ...]]()
        for batch in batches:
            if batch[0].job.unique and (same := same_as(checked[batch[0].label][0])) is not None:
                out.append(Accepted(batch[0], same.label, is_new=False))
                named[same.name] = (same.number,)
                continue
            specs = [_after(spec, one, named) for one in batch for spec in checked[one.label]]
            made = submit(specs)
            numbers = tuple(spec.number for spec in made)
            named[made[0].name] = (*named.get(made[0].name, ()), *numbers)
            out += [
                Accepted(one, spec.label.partition("_")[0])
                for one, spec in zip(batch, made, strict=False)  # an array is alone
            ]
        self._read = 0.0
        return out

    def _specs(self, one: Submission, names: set[str]) -> list[JobSpec]:
        """Returns the job, or one for each index, checked if this process reads devices."""
        if one.job.reservation is not None:
            from andon.leases.reserving import own_reservation

            own_reservation(one.job.reservation, one.job.book)
        spec = replace(
            one.job,
            after=self._numbers(word for word in one.after if word not in names),
            after_any=self._numbers(word for word in one.after_any if word not in names),
        )
        specs = [
            replace(spec, array=ArrayPlace(0, index, len(one.indices), one.limit))
            for index in one.indices
        ] or [spec]
        if self._sample is None or spec.request.is_plain:
            return specs
        return checked_specs(specs, self._sample, self._labels())

    def _numbers(self, refs: Iterator[str]) -> tuple[int, ...]:
        if not (given := list(refs)):
            return ()
        from andon.jobs.rules.naming import NameRule, meant

        jobs, rule = self.fresh().jobs, NameRule(self._notify)
        return tuple(dict.fromkeys(number for word in given for number in meant(word, jobs, rule)))

    # Reading.

    def listing(self, everyone: bool = False) -> "JobListing":
        from andon.jobs.rules.views import JobListing

        with self._lock:
            queue = self.fresh()
            return JobListing(tuple(queue.views()), queue.paused)

    def view(self, job: JobName) -> "JobView":
        """Returns one job with the variables that may be shown."""
        with self._lock:
            return self.fresh().view(self.facts(job).spec.number)

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> "Found":
        with self._lock:
            queue = self.fresh()
            if act is None and (known := self._found.get(tuple(refs))) is not None:
                return known
            numbers, errors = self._meant(refs, act)
            found = Found(queue.views(numbers), errors)
            if act is None:
                self._found[tuple(refs)] = found
            return found

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        from andon.jobs.outputs import read_output
        from andon.model.job.facts import JobState

        with self._lock:
            facts = self.facts(job)
            state = self.fresh().statuses[facts.spec.number].state
            begun = [one.number for one in facts.attempts]
            if not begun and attempt is None:
                return LogPart(0, 0, "", state.is_settled)
            wanted = begun[-1] if attempt is None else attempt
            if wanted not in begun:
                raise Gone(f"job {job} has no attempt {wanted}", hint=f"it has {len(begun)}")
            path = self.fresh().folder.output(facts.spec.number, wanted)
        over = state.is_settled if attempt is None else state is not JobState.RUNNING
        part = read_output(path, start, most, over or wanted != begun[-1])
        return replace(part, attempt=wanted)

    def reasons(self, job: JobName) -> list[JobReason]:
        from andon.jobs.rules.views import reasons_of

        return reasons_of(self.view(job))

    # Changing.

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        from andon.jobs.acts import perform

        out, done = list[JobOutcome](), list[int]()
        with self._lock:
            queue = self.fresh(again=True)
            numbers, errors = self._meant(refs, act)
            out += [JobOutcome("", error=one) for one in errors]
            for number in numbers:
                label = queue.jobs[number].spec.label
                try:
                    text = perform(act, number, queue.folder, queue.jobs, queue.statuses)
                except AndonError as error:  # the others are changed all the same
                    out.append(JobOutcome(label, error=error))
                else:
                    done.append(number)
                    out.append(JobOutcome(label, text))
            if act is JobAct.CANCEL:
                queue.folder.settle(done)
            self._read = 0.0
        if act is not JobAct.REMOVE:
            self._changed(queue)
        if self._wake is None and act is not JobAct.CANCEL and not is_dispatched(queue.folder):
            out = [replace(one, note=NOT_DISPATCHED) for one in out]
        return out

    def end_of(self, label: str, grace_seconds: float) -> JobOutcome:
        """Waits until a job that was asked to end has ended, for as long as it may take to end; the
        error names what is left of it."""
        from andon.jobs.acts import left_over, wait_for_end
        from andon.jobs.rules.naming import deleted_meanwhile

        facts, folder = self.facts(label), self.fresh().folder
        own = facts.spec.grace_seconds
        patience = (grace_seconds if own is None else own) + SLACK_SECONDS
        ended = wait_for_end(folder, facts.spec.number, patience)
        last = (ended or facts).last
        if left := left_over(ended or facts):
            holds = ", ".join(last.claim.labels) if last else "?"
            pids = ", ".join(map(str, left))
            why = AndonError(f"job {label}: pid {pids} still runs and holds GPU {holds}")
            return JobOutcome(label, error=why)
        if ended is None:
            return JobOutcome(label, error=deleted_meanwhile(label))
        if last is not None and last.end is None and last.locked:
            why = AndonError(f"job {label} has not ended yet: {STILL_ENDING}")
            return JobOutcome(label, error=why)
        return JobOutcome(label, "cancelled")

    def move_before(self, job: str, other: str) -> JobOutcome:
        """Moves a waiting job right before another one."""
        from andon.jobs.acts import move

        with self._lock:
            facts, target = self.facts(job), self.facts(other).spec.number
            queue = self.fresh()
            move(queue.folder, facts, queue.jobs, queue.statuses, target)
        self._changed(queue)
        return JobOutcome(facts.spec.label, "moved")

    # Helpers.

    def _changed(self, queue: Queue) -> None:
        self._read = 0.0
        if self._wake is not None:
            queue.folder.ring()
            self._wake(queue.folder)

    def facts(self, job: JobName) -> "JobFacts":
        """Returns the facts of the one job that is named."""
        from andon.jobs.rules.naming import NameRule, no_job, one_meant

        jobs = self.fresh().jobs
        number = job if isinstance(job, int) else one_meant(job, jobs, NameRule(self._notify))
        if number not in jobs:
            raise no_job(number)
        return jobs[number]

    def _meant(
        self, refs: Sequence[JobName], act: JobAct | None
    ) -> tuple[list[int], list[AndonError]]:
        """Returns the numbers of the jobs that are named; of several with one name, those that the
        act applies to come first."""
        from andon.jobs.rules.naming import meant, name_rule

        queue, found, errors = self.fresh(), dict[int, None](), list[AndonError]()
        states = queue.statuses
        rule = name_rule(act, lambda number: states[number].state, self._notify)
        for word in refs:
            try:
                if isinstance(word, int):
                    found[self.facts(word).spec.number] = None
                else:
                    found |= dict.fromkeys(meant(word, queue.jobs, rule))
            except AndonError as error:
                errors.append(error)
        return list(found), errors

    def fresh(self, again: bool = False) -> Queue:
        """Returns the queue, read again unless that was a moment ago and nothing has changed."""
        try:
            if self._queue is None:
                self._queue = self._open()
            else:
                changed_at, now = self._queue.folder.changed_at(), time.monotonic()
                if (
                    not again
                    and changed_at == self._changed_at
                    and now - self._read < FRESH_SECONDS
                ):
                    return self._queue
                self._queue.refresh()
        except OSError as exc:
            reason = f"the jobs cannot be read: {exc.strerror}"
            raise Unavailable(reason, hint="check the state folder: andon doctor") from exc
        self._read, self._changed_at = time.monotonic(), self._queue.folder.changed_at()
        self._found = {}
        active = any(not one.state.is_settled for one in self._queue.statuses.values())
        if active and self._wake is not None and not self._queue.paused:
            self._wake(self._queue.folder)
        return self._queue


def _batch(one: Submission) -> object:
    """Returns a key that is equal for jobs to be queued together: the combinations of a sweep."""
    alone = one.indices or one.job.unique or not one.job.params
    return one.label if alone else (one.job.group, one.job.name, one.after, one.after_any)


def _after(spec: JobSpec, one: Submission, named: "Mapping[str, Sequence[int]]") -> JobSpec:
    """Adds the numbers of the earlier jobs that this one names."""
    after = [number for word in one.after for number in named.get(word, ())]
    after_any = [number for word in one.after_any for number in named.get(word, ())]
    if not after and not after_any:
        return spec
    return replace(spec, after=(*spec.after, *after), after_any=(*spec.after_any, *after_any))
