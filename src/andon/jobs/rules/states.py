"""The state of every job: from the files in its folder, the jobs it waits for, and the time."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from andon.model.job.facts import AttemptFacts, EndReason, JobFacts, JobState

MOST_LOST = 10
"""A job that is lost more often is not retried: it may be what restarts the machine."""
READY = None
"""The reason of a job that could start if there were devices."""
END_TEXTS = {
    EndReason.RELEASED: "its lease was released",
    EndReason.CANCELLED: "cancelled",
    EndReason.REQUEUED: "put back into the queue",
}


class JobStatus(Struct, frozen=True):
    """The state of a job, its attempt, and why it does not start or how it ended.

    A job that waits without a reason is ready: it lacks only devices.
    """

    state: JobState
    attempt: int = 1
    reason: str | None = READY

    @property
    def is_ready(self) -> bool:
        return self.state is JobState.WAITING and self.reason is None


FIRST = JobStatus(JobState.WAITING)
"""A job without conditions that has not started."""


def job_statuses(
    jobs: Iterable[JobFacts],
    at: float,
    paused: bool = False,
    known: Mapping[int, JobStatus] | None = None,
) -> dict[int, JobStatus]:
    """Returns every job's status. `jobs` come by number: a job only waits for earlier ones, so one
    pass is enough. `known` has the statuses of other jobs, from `lasting_status`."""
    out: dict[int, JobStatus] = dict(known or {})
    limited: list[JobFacts] = []
    for facts in jobs:
        if _is_plain(facts):
            out[facts.spec.number] = FIRST
            continue
        found = own_status(facts, at)
        if found.state is JobState.WAITING and (facts.spec.after or facts.spec.after_any):
            found = _after(facts, found, out)
        out[facts.spec.number] = found
        if facts.spec.array is not None and facts.spec.array.limit is not None:
            limited.append(facts)
    _limit_arrays(limited, out)
    if paused:
        _pause(out)
    return {number: out[number] for number in sorted(out)} if known else out


def lasting_status(facts: JobFacts) -> JobStatus | None:
    """The state of a job if neither the time nor another job can change it; otherwise None."""
    if _is_plain(facts):
        return FIRST
    found = own_status(facts, 0.0)
    return found if found.state.is_settled else None


def has_work(found: Iterable[JobStatus], paused: bool) -> bool:
    """Whether a dispatcher is needed; held jobs and a paused queue need none."""
    return any(
        one.state is JobState.RUNNING
        or (one.state in (JobState.WAITING, JobState.LATER) and not paused)
        for one in found
    )


def _pause(out: dict[int, JobStatus]) -> None:
    reason = "the queue is paused: andon jobs start"
    paused: dict[int, JobStatus] = {}  # by attempt: shared, as most of a long queue is alike
    for number, found in out.items():
        if found.is_ready:
            if found.attempt not in paused:
                paused[found.attempt] = JobStatus(JobState.WAITING, found.attempt, reason)
            out[number] = paused[found.attempt]


def _is_plain(facts: JobFacts) -> bool:
    """Whether a job only waits for devices; most of a long queue does."""
    spec = facts.spec
    return not (
        facts.attempts
        or facts.held
        or facts.cancelled
        or facts.again
        or facts.expired
        or spec.after
        or spec.after_any
        or spec.begin_at
        or (spec.array is not None and spec.array.limit is not None)
    )


def own_status(facts: JobFacts, at: float) -> JobStatus:
    """Returns the status without regard to other jobs."""
    last = facts.last
    wanted = facts.again.attempt if facts.again is not None else 1
    if last is None:
        return _pending(facts, wanted, at)
    if is_running(last):
        return JobStatus(JobState.RUNNING, last.number, _running_reason(facts, last))
    if last.number < wanted:
        return _pending(facts, wanted, at)
    return _ended(facts, last, wanted, at)


def _running_reason(facts: JobFacts, last: AttemptFacts) -> str | None:
    """Says why a running job will be stopped or moved."""
    if _is_cancelled(facts, last.number):
        return "being cancelled"
    if facts.again is not None and facts.again.attempt > last.number:
        return "being put back into the queue"
    before = [one for one in facts.attempts if one.number < last.number][-1:]
    same = left_devices(before[0] if before else None) & set(last.claim.devices)
    if not same:
        return None
    labels = zip(last.claim.devices, last.claim.labels, strict=False)
    shown = ", ".join(label for uuid, label in labels if uuid in same)
    return f"again on GPU {shown}: no other can be used"


def left_devices(attempt: AttemptFacts | None) -> frozenset[str]:
    """Returns the devices that a job must avoid: those it had when `jobs requeue` stopped it."""
    if attempt is None or attempt.end is None or attempt.end.reason is not EndReason.REQUEUED:
        return frozenset()
    return frozenset(attempt.claim.devices)


def is_running(attempt: AttemptFacts) -> bool:
    return attempt.end is None and (attempt.locked or attempt.alive)


def _pending(facts: JobFacts, attempt: int, at: float) -> JobStatus:
    spec = facts.spec
    if _is_cancelled(facts, attempt):
        return JobStatus(JobState.CANCELLED, attempt, _cancel_reason(facts))
    if facts.expired is not None and facts.expired.attempt >= attempt:
        return JobStatus(JobState.FAILED, attempt, facts.expired.reason)
    if facts.held:
        return JobStatus(JobState.HELD, attempt, f"held: andon jobs resume {spec.label}")
    if spec.begin_at is not None and spec.begin_at > at:
        return JobStatus(JobState.LATER, attempt, "until its --begin")
    return FIRST if attempt == 1 else JobStatus(JobState.WAITING, attempt)


def _cancel_reason(facts: JobFacts) -> str:
    note = facts.cancelled
    if note is None or not (note.reason or note.by):
        return "cancelled"
    return note.reason or f"cancelled by {note.by}"


def _is_cancelled(facts: JobFacts, attempt: int) -> bool:
    return facts.cancelled is not None and facts.cancelled.attempt >= attempt


def _ended(facts: JobFacts, last: AttemptFacts, wanted: int, at: float) -> JobStatus:
    state, reason = outcome(last)
    if _is_cancelled(facts, last.number + 1):  # while it waited for its next attempt
        return _pending(facts, last.number + 1, at)
    if _is_cancelled(facts, last.number):
        if state is JobState.LOST:
            return JobStatus(
                JobState.CANCELLED, last.number, "cancelled; how it ended is not known"
            )
        given = None if facts.cancelled is None else facts.cancelled.reason
        shown = given if given and state is JobState.CANCELLED else reason
        return JobStatus(state, last.number, shown)
    if state is JobState.FAILED and facts.spec.retry_oom and last.verdict is None:
        return JobStatus(JobState.RUNNING, last.number, "it has ended; its output is being read")
    since = [one for one in facts.attempts if one.number >= wanted]
    if _retries(facts, last, since, state):
        return _pending(facts, last.number + 1, at)
    return JobStatus(state, last.number, reason)


def _retries(
    facts: JobFacts, last: AttemptFacts, since: list[AttemptFacts], state: JobState
) -> bool:
    """Whether the job is retried automatically; `since` are the attempts since a request."""
    spec = facts.spec
    if state is JobState.LOST:
        lost = sum(outcome(one)[0] is JobState.LOST for one in since)
        return spec.retry_lost and lost <= MOST_LOST
    if state is not JobState.FAILED or not (spec.retries or spec.retry_oom):
        return False
    failed = [one for one in since if outcome(one)[0] is JobState.FAILED]
    memory = sum(ran_out_of_memory(one) for one in failed)
    if ran_out_of_memory(last) and memory <= spec.retry_oom:
        return True
    return len(failed) - min(memory, spec.retry_oom) <= spec.retries


def ran_out_of_memory(attempt: AttemptFacts) -> bool:
    return attempt.verdict is not None and attempt.verdict.out_of_memory


def outcome(attempt: AttemptFacts) -> tuple[JobState, str | None]:
    """Returns how an attempt that no longer runs ended, as state and text."""
    end = attempt.end
    if end is None:
        return JobState.LOST, "its supervisor was killed, or the machine restarted"
    verdict = None if attempt.verdict is None else attempt.verdict.words
    if end.reason is EndReason.TIME_LIMIT:
        return JobState.TIMED_OUT, "it ran longer than --for"
    if end.reason in END_TEXTS:
        by = f" by {end.by}" if end.by else ""
        return JobState.CANCELLED, f"{END_TEXTS[end.reason]}{by}"
    if end.exit_code == 0 and end.signal is None:
        return JobState.SUCCEEDED, None
    return JobState.FAILED, end.message or verdict or _exit_text(attempt)


def _exit_text(attempt: AttemptFacts) -> str:
    end = attempt.end
    if end is not None and end.signal is not None:
        return f"ended by signal {end.signal}"
    return f"exit code {None if end is None else end.exit_code}"


def _after(facts: JobFacts, found: JobStatus, known: Mapping[int, JobStatus]) -> JobStatus:
    """Returns the job as never starting, or waiting, because of the jobs that it comes after; else
    `found`. It is judged again once those have run again."""
    spec = facts.spec
    for number in spec.after:
        other = known.get(number)
        if other is None:
            return _never(found, f"job {number}, which it waits for, does not exist")
        if other.state.is_settled and other.state is not JobState.SUCCEEDED:
            return _never(found, f"job {number}, which it waits for, ended: {other.state.text}")
    for number in (*spec.after, *spec.after_any):
        other = known.get(number)
        if other is not None and not other.state.is_settled:
            reason = f"after job {number} ({other.state.text})"
            return JobStatus(JobState.WAITING, found.attempt, reason)
    return found


def _never(found: JobStatus, reason: str) -> JobStatus:
    return JobStatus(JobState.CANCELLED, found.attempt, reason)


def _limit_arrays(limited: list[JobFacts], out: dict[int, JobStatus]) -> None:
    """Makes jobs wait that exceed how many of their array may run at once."""
    taken: dict[int, int] = {}
    for facts in limited:
        if facts.spec.array is not None and out[facts.spec.number].state is JobState.RUNNING:
            taken[facts.spec.array.id] = taken.get(facts.spec.array.id, 0) + 1
    for facts in limited:
        array, found = facts.spec.array, out[facts.spec.number]
        if array is None or array.limit is None or not found.is_ready:
            continue
        if taken.get(array.id, 0) >= array.limit:
            reason = f"{array.limit} of array {array.id} may run at once"
            out[facts.spec.number] = JobStatus(JobState.WAITING, found.attempt, reason)
        else:
            taken[array.id] = taken.get(array.id, 0) + 1
