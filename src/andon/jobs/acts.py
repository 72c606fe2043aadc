"""The actions on jobs: cancel, hold, resume, retry, requeue, remove, move."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum

from andon.errors import Conflict, Denied, Invalid, Unavailable
from andon.host.processes.kin import group_members, started_ticks
from andon.host.users import user_name
from andon.jobs.folder import AGAIN, CANCELLED, CLAIM, HELD, ORDER, JobsFolder
from andon.jobs.rules.order import place_before, place_first, place_last, waiting_in_order
from andon.jobs.rules.states import JobStatus, is_running
from andon.jobs.scan import Scanner, group_lives
from andon.model.job.desk import JobAct
from andon.model.job.facts import AttemptClaim, JobFacts, JobNote, JobState
from andon.units import human_seconds

POLL_SECONDS = 0.05


class CancelOutcome(StrEnum):
    """The result of a request to cancel."""

    ENDED = "has ended already"
    CANCELLED = "cancelled"  # it had not started
    STOPPING = "stopping"  # its command was asked to end


def perform(
    act: JobAct,
    number: int,
    folder: JobsFolder,
    jobs: Mapping[int, JobFacts],
    known: Mapping[int, JobStatus],
) -> str:
    """Performs an action on a job; returns what happens to it as text."""
    facts, status = jobs[number], known[number]
    match act:
        case JobAct.CANCEL:
            outcome = cancel(folder, facts, status, settle=False)
            if outcome is CancelOutcome.ENDED and status.state is JobState.CANCELLED:
                return "was already cancelled"
            return outcome.value
        case JobAct.RETRY:
            retry(folder, facts, status)
            return "waits again"
        case JobAct.REQUEUE:
            requeue(folder, facts, status)
            return _requeued(facts)
        case JobAct.HOLD:
            hold(folder, facts, status)
            return "is held"
        case JobAct.RESUME:
            resume(folder, facts, status)
            return "waits again"
        case JobAct.REMOVE:
            remove(folder, facts, jobs, known)
            return "deleted"
        case _:
            move(folder, facts, jobs, known, first=act is JobAct.FIRST)
            return "moved"


def _requeued(facts: JobFacts) -> str:
    checkpoint, last = facts.spec.checkpoint, facts.last
    labels = ", ".join(last.claim.labels) if last is not None else ""
    saves = ""
    if checkpoint is not None:
        time_left = human_seconds(checkpoint.seconds)
        saves = f"is sent SIG{checkpoint.signal}, has {time_left} to save its work, "
    other = f", for another GPU than {labels} if there is one" if labels else ""
    return f"{saves}is stopped and waits again{other}"


def cancel(
    folder: JobsFolder,
    facts: JobFacts,
    status: JobStatus,
    settle: bool = True,
    reason: str = "",
) -> CancelOutcome:
    """Keeps a job from starting again, and asks a running one to end. Without `settle`, the
    caller settles many jobs at once before it reports that they are cancelled.

    The note is written first, and the supervisor reads it after the claim: one of the two sees
    the other.
    """
    if status.state.is_settled:
        return CancelOutcome.ENDED
    number = facts.spec.number
    try:
        folder.note(number, CANCELLED, JobNote(status.attempt, time.time(), _me(), reason), settle)
    except (Denied, Unavailable):
        # A job that fills the disk can be stopped: the space for its end is reserved.
        last = facts.last
        if last is None or not is_running(last) or not ask_to_end(last.claim):
            raise
        return CancelOutcome.STOPPING
    fresh = Scanner(folder, index=False).again(number)
    last = None if fresh is None else fresh.last
    if last is None or not is_running(last):
        return CancelOutcome.CANCELLED
    ask_to_end(last.claim)
    return CancelOutcome.STOPPING


def ask_to_end(claim: AttemptClaim) -> bool:
    """Sends SIGTERM to the job's supervisor; if that is dead, to the command itself."""
    if signal_process(claim.pid, claim.started_ticks, signal.SIGTERM):
        return True
    return signal_group(claim, signal.SIGTERM)


def signal_process(pid: int, ticks: int, number: int) -> bool:
    """Sends a signal if the pid is still the intended process; returns whether it was sent."""
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, OverflowError):
        return False
    try:
        if started_ticks(pid) != ticks:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def signal_group(claim: AttemptClaim, number: int) -> bool:
    if not group_lives(claim):
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(claim.group, number)
        return True
    return False


def wait_for_end(folder: JobsFolder, number: int, seconds: float) -> JobFacts | None:
    """Waits for the attempt's end; after that time, kills a command without a supervisor."""
    scanner, until = Scanner(folder, index=False), time.monotonic() + seconds
    while True:
        facts = scanner.again(number)
        last = None if facts is None else facts.last
        if last is None or not is_running(last):
            return facts
        if time.monotonic() >= until:
            if not last.locked:
                signal_group(last.claim, signal.SIGKILL)
            return facts
        time.sleep(POLL_SECONDS)


def left_over(facts: JobFacts) -> tuple[int, ...]:
    """Returns the processes of an ended command's group that are still alive."""
    last = facts.last
    if last is None or not group_lives(last.claim):
        return ()
    found = group_members({last.claim.group}).get(last.claim.group, ())
    return tuple(one.pid for one in found if not one.ended)


def hold(folder: JobsFolder, facts: JobFacts, status: JobStatus) -> None:
    if status.state is JobState.RUNNING:
        raise _running(facts)
    _refuse_settled(facts, status, "held")
    folder.small(facts.spec.number, HELD, f"{time.time()}")
    if (folder.attempt(facts.spec.number, status.attempt) / CLAIM).exists():
        folder.drop(facts.spec.number, HELD)
        raise _running(facts)  # it was being started


def _running(facts: JobFacts) -> Conflict:
    label = facts.spec.label
    return Conflict(f"job {label} is running", hint=f"andon jobs requeue {label}")


def resume(folder: JobsFolder, facts: JobFacts, status: JobStatus) -> None:
    _refuse_settled(facts, status, "resumed")
    folder.drop(facts.spec.number, HELD)


def retry(folder: JobsFolder, facts: JobFacts, status: JobStatus) -> None:
    """Runs an ended job again, as if it had just been submitted."""
    if not status.state.is_settled:
        raise Conflict(
            f"job {facts.spec.label} has not ended: it is {status.state.text}",
            hint=f"andon jobs requeue {facts.spec.label} stops it and queues it again",
        )
    _ask_again(folder, facts, status.attempt + 1)


def requeue(folder: JobsFolder, facts: JobFacts, status: JobStatus) -> None:
    """Stops a running job, and queues it again."""
    last = facts.last
    if status.state is not JobState.RUNNING or last is None:
        verb = "retry" if status.state.is_settled else "show"
        raise Conflict(
            f"job {facts.spec.label} is not running: it is {status.state.text}",
            hint=f"andon jobs {verb} {facts.spec.label}",
        )
    _ask_again(folder, facts, last.number + 1)
    ask_to_end(last.claim)


def _ask_again(folder: JobsFolder, facts: JobFacts, attempt: int) -> None:
    last = 0 if facts.last is None else facts.last.number
    note = JobNote(max(attempt, last + 1), time.time(), _me())
    folder.note(facts.spec.number, AGAIN, note)


def remove(
    folder: JobsFolder,
    facts: JobFacts,
    jobs: Mapping[int, JobFacts],
    known: Mapping[int, JobStatus],
) -> None:
    """Deletes an ended job with its output."""
    number = facts.spec.number
    if not known[number].state.is_settled:
        raise Conflict(
            f"job {facts.spec.label} has not ended: it is {known[number].state.text}",
            hint=f"andon cancel {facts.spec.label}",
        )
    for other in jobs.values():
        needed = number in other.spec.after or number in other.spec.after_any
        if needed and not known[other.spec.number].state.is_settled:
            raise Conflict(f"job {other.spec.label} waits for job {facts.spec.label}")
    folder.remove(number)


def move(
    folder: JobsFolder,
    facts: JobFacts,
    jobs: Mapping[int, JobFacts],
    known: Mapping[int, JobStatus],
    before: int | None = None,
    first: bool = False,
) -> None:
    """Moves a waiting job among its priority: to the front, to the end, or before another."""
    _refuse_settled(facts, known[facts.spec.number], "moved")
    waiting = waiting_in_order(jobs.values(), known)
    others = [one for one in waiting if one.spec.number != facts.spec.number]
    if before is not None:
        if all(one.spec.number != before for one in others):
            raise Invalid(f"job {before} does not wait", hint="andon jobs lists those that do")
        place = place_before(others, before)
    else:
        place = place_first(others) if first else place_last(others)
    folder.small(facts.spec.number, ORDER, repr(place))


def _refuse_settled(facts: JobFacts, status: JobStatus, verb: str) -> None:
    if status.state.is_settled or status.state is JobState.RUNNING:
        why = "it has ended" if status.state.is_settled else "it has started"
        raise Conflict(
            f"job {facts.spec.label} cannot be {verb}: {why}",
            hint="andon jobs lists those that wait",
        )


def _me() -> str:
    return user_name(os.getuid())
