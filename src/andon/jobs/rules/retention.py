"""Which jobs are deleted: those that ended long ago, unless another job still waits for them."""

from collections.abc import Mapping

from andon.jobs.rules.states import JobStatus
from andon.model.job.facts import JobFacts


def too_old(
    jobs: Mapping[int, JobFacts], known: Mapping[int, JobStatus], at: float, keep_seconds: float
) -> list[int]:
    """Returns the numbers of jobs to delete, the oldest first."""
    needed = {
        other
        for number, facts in jobs.items()
        if not known[number].state.is_settled
        for other in (*facts.spec.after, *facts.spec.after_any)
    }
    return [
        number
        for number, facts in jobs.items()
        if known[number].state.is_settled
        and number not in needed
        and at - settled_at(facts) > keep_seconds
    ]


def settled_at(facts: JobFacts) -> float:
    """When a job ended, as far as known; for one that never began, when that was decided."""
    notes = (facts.cancelled, facts.expired)
    moments = [facts.spec.submitted_at, *(note.at for note in notes if note is not None)]
    ends = [one.claim.at if one.end is None else one.end.ended for one in facts.attempts]
    return max([*moments, *ends])
