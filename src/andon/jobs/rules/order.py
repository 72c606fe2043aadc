"""The order of a user's jobs: priority, then their place, which `jobs move` changes."""

from collections.abc import Iterable, Mapping

from andon.jobs.rules.states import JobStatus
from andon.model.job.facts import JobFacts, JobState

OrderKey = tuple[int, float, int]


def order_key(facts: JobFacts) -> OrderKey:
    """Returns a sort key; the smallest comes first."""
    number = facts.spec.number
    place = float(number) if facts.order is None else facts.order
    return -facts.spec.priority, place, number


def in_order(jobs: Iterable[JobFacts]) -> list[JobFacts]:
    return sorted(jobs, key=order_key)


def waiting_in_order(jobs: Iterable[JobFacts], known: Mapping[int, JobStatus]) -> list[JobFacts]:
    """Returns the jobs that wait, for any reason, without those that are held or begin later."""
    return in_order(one for one in jobs if known[one.spec.number].state is JobState.WAITING)


def place_first(waiting: Iterable[JobFacts]) -> float:
    """Returns a place in front of all others."""
    return min((order_key(one)[1] for one in waiting), default=1.0) - 1.0


def place_last(waiting: Iterable[JobFacts]) -> float:
    return max((order_key(one)[1] for one in waiting), default=0.0) + 1.0


def place_before(waiting: Iterable[JobFacts], number: int) -> float:
    """Returns a place right in front of another job; halfway to the one ahead of it."""
    places = sorted(order_key(one)[1] for one in waiting if one.spec.number != number)
    target = next(order_key(one)[1] for one in waiting if one.spec.number == number)
    ahead = [place for place in places if place < target]
    return (ahead[-1] + target) / 2 if ahead else target - 1.0
