"""How long a job has waited, when it has waited too long, and which request its retry makes."""

from collections.abc import Iterable, Sequence

from andon.errors import Unavailable
from andon.jobs.rules.states import ran_out_of_memory
from andon.leases.rules.eligibility import Labels
from andon.leases.rules.larger import larger_request
from andon.model.device import DeviceStatus
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobFacts
from andon.model.job.spec import JobSpec
from andon.units import counted, human_seconds

MOST_USERS, MOST_LABELS = 3, 8
"""How many users, and devices of each, a reason names."""


def waited_seconds(
    facts: JobFacts, at: float, boot: str | None, boot_seconds: float, ready_at: float = 0.0
) -> float:
    """Returns the time since submission on a clock that is never set, if it is the same boot.

    `ready_at` is when the last job that it waited for ended. A job that begins later, comes
    after others or was requested again counts from then, by the wall clock.
    """
    spec = facts.spec
    moments = [ready_at, spec.begin_at or 0.0, 0.0 if facts.again is None else facts.again.at]
    last = facts.last
    if last is not None:
        moments.append(last.claim.at if last.end is None else last.end.ended)
    since = max(moments)
    if since > spec.submitted_at:
        return max(0.0, at - since)
    if spec.boot is not None and spec.boot == boot and spec.submitted_boot_seconds is not None:
        return max(0.0, boot_seconds - spec.submitted_boot_seconds)
    return max(0.0, at - spec.submitted_at)


def insufficient(waited: float, why: str = "") -> str:
    """Returns the error of a job that waited longer than --timeout."""
    more = f": {why}" if why else ""
    return f"Insufficient GPUs after waiting {human_seconds(waited)}{more}"


def who_has(held: Iterable[tuple[str, str]]) -> str:
    """Returns `alice has GPU 0, 1; bob has GPU 3`, from pairs of a device's label and its user.
    By name, because root reads it too."""
    by_user: dict[str, list[str]] = {}
    for label, user in held:
        by_user.setdefault(user, []).append(label)
    parts = []
    for user, labels in by_user.items():
        many = len(labels) > MOST_LABELS
        what = f"{len(labels)} GPUs" if many else f"GPU {', '.join(labels)}"
        parts.append(f"{user} has {what}")
    shown = "; ".join(parts[:MOST_USERS])
    others = len(parts) - MOST_USERS
    return f"{shown}; {counted(others, 'more user')}" if others > 0 else shown


def request_of(facts: JobFacts, statuses: Sequence[DeviceStatus], labels: Labels) -> DeviceRequest:
    """Returns the job's request, with more memory after it ran out. Raises Unavailable if no
    device has more."""
    request, last = facts.spec.request, facts.last
    if last is None or not ran_out_of_memory(last) or not facts.spec.retry_oom:
        return request
    rounds = sum(ran_out_of_memory(one) for one in facts.attempts)
    had = None if last.verdict is None else last.verdict.free_bytes
    try:
        return larger_request(request, had, statuses, labels, rounds)
    except Unavailable as error:
        verdict = last.verdict.words if last.verdict is not None else None
        before = f"{verdict}; " if verdict else ""
        reason = f"{before}cannot retry with more memory: {error.reason}"
        raise Unavailable(reason, hint=error.hint) from error


def lasts_seconds(spec: JobSpec, grace_seconds: float) -> float | None:
    """Returns how long a job may hold its devices; `grace_seconds` is for jobs that set no grace.
    None without a limit."""
    grace = grace_seconds if spec.grace_seconds is None else spec.grace_seconds
    return None if spec.for_seconds is None else spec.for_seconds + grace + SLACK


SLACK = 5.0
"""Seconds until a killed command's devices are free again."""
