"""How long a job has waited, when it has waited too long, and which request its retry makes."""

from dataclasses import replace

from andon.core.jobs.states import ran_out_of_memory
from andon.model.job import JobFacts, JobSpec
from andon.model.work import DeviceRequest
from andon.units import MIB, human_seconds


def waited_seconds(
    facts: JobFacts, at: float, boot: str | None, boot_seconds: float, ready_at: float = 0.0
) -> float:
    """Since its submission on a clock that is never set, as far as it is the same boot.

    `ready_at` is when the last job that it waited for ended. A job that begins later, comes after
    others or was asked for again counts from then, by the wall clock.
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
    """The error of a job that waited longer than --timeout."""
    more = f": {why}" if why else ""
    return f"Insufficient GPUs after waiting {human_seconds(waited)}{more}"


def request_of(facts: JobFacts, largest_bytes: int | None) -> DeviceRequest:
    """Its request; after running out of memory with more, if any device here has more.

    `largest_bytes` is the most that a device here has when it is empty: where that is not more, the
    same is tried, since waiting for more would never end.
    """
    request, last = facts.spec.request, facts.last
    if last is None or not ran_out_of_memory(last) or not facts.spec.retry_oom:
        return request
    asked = request.memory_bytes or 0
    if request.shared:
        rounds = sum(ran_out_of_memory(one) for one in facts.attempts)
        more = asked * 3**rounds // 2**rounds
    else:
        had = last.verdict.free_bytes if last.verdict is not None else None
        more = max(asked, had or 0) + MIB
    if largest_bytes is None or more > largest_bytes:
        return request
    return replace(request, memory_bytes=more)


def lasts_seconds(spec: JobSpec) -> float | None:
    """How long it holds its devices at most."""
    return None if spec.for_seconds is None else spec.for_seconds + spec.grace_seconds + SLACK


SLACK = 5.0
"""Until a killed command's devices are free again."""
