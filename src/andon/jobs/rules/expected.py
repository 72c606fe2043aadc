"""When a waiting job will probably start, from how long similar jobs took; for display only."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from statistics import median

from msgspec import Struct

from andon.jobs.rules.states import JobStatus
from andon.leases.rules.spans import Span, first_gap
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
    waiting: Sequence[JobFacts],
    devices: Sequence[BusyUntil],
    known: Mapping[str, Learned],
    booked: Sequence[Sequence[Span]] = (),
) -> dict[int, ExpectedStart]:
    """Returns the expected start of each waiting job, in order, as far as everything ahead of it
    is known; `booked` are the times at which each device is reserved for others.

    Devices are treated as alike, which is why this decides nothing.
    """
    free = [(device.free_at, device.runs) for device in devices]
    taken = list(booked) or [()] * len(free)
    out: dict[int, ExpectedStart] = {}
    for facts in waiting:
        least = facts.spec.request.least
        if least > len(free):
            continue
        limit, like = facts.spec.for_seconds, known.get(facts.spec.name)
        start, chosen = _common_start(free, taken, least, limit)
        if start == inf:
            break
        runs = sum({free[place][1] for place in chosen})
        out[facts.spec.number] = ExpectedStart(start, runs)
        lasts = min(inf if limit is None else limit, inf if like is None else like.seconds)
        used = max(runs, 0 if like is None else like.runs)
        for place in chosen:
            free[place] = (start + lasts, used)
    return out


def _common_start(
    free: Sequence[tuple[float, int]],
    taken: Sequence[Sequence[Span]],
    count: int,
    seconds: float | None,
) -> tuple[float, list[int]]:
    """Returns the first time at which so many devices are free for so long, and which they are."""
    start = -inf
    while True:
        found = sorted(
            (first_gap(taken[place], max(moment, start), seconds), runs, place)
            for place, (moment, runs) in enumerate(free)
        )[:count]
        if found[-1][0] <= start or found[-1][0] == inf:
            return found[-1][0], [place for _, _, place in found]
        start = found[-1][0]
