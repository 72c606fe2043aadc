"""When a waiting job will probably start, from how long similar jobs took; for display only."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from statistics import median

from msgspec import Struct

from andon.jobs.rules.states import JobStatus
from andon.model.job.facts import EndReason, JobFacts, JobState

MOST_LEARNED = 50
"""The latest runs of a name that count."""


class Learned(Struct, frozen=True):
    """How long jobs of one name took."""

    seconds: float
    runs: int


class BusyUntil(Struct, frozen=True):
    """When a device is expected to be free; infinite if that is not known."""

    free_at: float
    runs: int = 0


class ExpectedStart(Struct, frozen=True):
    """An expected start, and how many runs it comes from."""

    at: float
    runs: int


def learned(jobs: Iterable[JobFacts]) -> dict[str, Learned]:
    """Returns durations by name, from attempts that ended by themselves and successfully."""
    found: dict[str, list[float]] = {}
    for facts in jobs:
        for attempt in facts.attempts:
            end = attempt.end
            if end is not None and end.reason is EndReason.EXITED and end.exit_code == 0:
                found.setdefault(facts.spec.name, []).append(end.seconds)
    return {
        name: Learned(median(times[-MOST_LEARNED:]), len(times[-MOST_LEARNED:]))
        for name, times in found.items()
    }


def expected_end(
    facts: JobFacts, started: float, known: Mapping[str, Learned], at: float
) -> BusyUntil:
    """Returns when a running job should end: as similar jobs did, at its limit at the latest."""
    like, limit = known.get(facts.spec.name), facts.spec.for_seconds
    by_limit = inf if limit is None else started + limit
    by_like = inf if like is None else max(at, started + like.seconds)
    if by_like <= by_limit:
        return BusyUntil(by_like, 0 if like is None else like.runs)
    return BusyUntil(max(at, by_limit), 0)


def expected_ends(
    jobs: Mapping[int, JobFacts],
    statuses: Mapping[int, JobStatus],
    known: Mapping[str, Learned],
    at: float,
) -> dict[str, BusyUntil]:
    """Returns when the devices of running jobs will be free, by uuid."""
    out: dict[str, BusyUntil] = {}
    for number, found in statuses.items():
        if found.state is JobState.RUNNING and (last := jobs[number].last) is not None:
            end = expected_end(jobs[number], last.claim.at, known, at)
            out |= dict.fromkeys(last.claim.devices, end)
    return out


def expected_starts(
    waiting: Sequence[JobFacts], devices: Sequence[BusyUntil], known: Mapping[str, Learned]
) -> dict[int, ExpectedStart]:
    """Returns the expected start of each waiting job, in order, as far as everything ahead of it
    is known.

    Devices are treated as alike, which is why this decides nothing.
    """
    free = [(device.free_at, device.runs) for device in devices]
    heapq.heapify(free)
    out: dict[int, ExpectedStart] = {}
    for facts in waiting:
        least = facts.spec.request.least
        if least > len(free):
            continue
        taken = [heapq.heappop(free) for _ in range(least)]
        start, runs = taken[-1][0], sum({one[1] for one in taken})
        if start == inf:
            break
        out[facts.spec.number] = ExpectedStart(start, runs)
        like = known.get(facts.spec.name)
        limit = facts.spec.for_seconds
        lasts = min(inf if limit is None else limit, inf if like is None else like.seconds)
        used = max(runs, 0 if like is None else like.runs)
        for _ in taken:
            heapq.heappush(free, (start + lasts, used))
    return out
