"""Publishes why jobs wait, in `holdups.json`, which is written when it changes."""

import time
from collections.abc import Mapping, Sequence
from math import inf

from andon.jobs.folder import JobsFolder
from andon.jobs.rules.expected import (
    BusyUntil,
    ExpectedStart,
    Learned,
    expected_ends,
    expected_starts,
    learned,
)
from andon.jobs.rules.order import in_order
from andon.jobs.rules.states import JobStatus
from andon.jobs.rules.views import MOST_REASONS
from andon.jobs.taking import BlockReason, DispatchRound
from andon.model.job.facts import Holdup, JobFacts

PUBLISH_SECONDS = 0.5
LEARN_SECONDS = 5.0
AHEAD = "jobs ahead of it wait for the same GPUs"


class HoldupWriter:
    """Writes why jobs wait, at most a few times a second."""

    def __init__(self, folder: JobsFolder) -> None:
        self._folder = folder
        self._now: dict[int, Holdup] = {}
        self._next: dict[int, BlockReason] = {}
        self._expected: dict[int, ExpectedStart] = {}
        self._places: dict[int, int] = {}
        self._written: dict[int, Holdup] | None = None
        self._published = self._learned_at = 0.0
        self._learned: dict[str, Learned] = {}
        self._jobs: Mapping[int, JobFacts] = {}
        self._known: Mapping[int, JobStatus] = {}

    def begin(self, jobs: Mapping[int, JobFacts], known: Mapping[int, JobStatus]) -> None:
        """Begins a round without any reasons; jobs that get none in it are no longer held up."""
        self._jobs, self._known = jobs, known
        self._next, self._expected, self._places = {}, {}, {}

    def waits(self, number: int, reason: str) -> None:
        self._next[number] = BlockReason(reason)

    def all_wait(self, jobs: Sequence[JobFacts], reason: str) -> None:
        for facts in jobs[:MOST_REASONS]:
            self.waits(facts.spec.number, reason)

    def found(self, round_: DispatchRound, jobs: Mapping[int, JobFacts]) -> None:
        """Adds the reasons that a round found, and expected starts if they are known."""
        started = {start.number for start in round_.plan.starts} - round_.why.keys()
        waiting = [f for f in in_order(jobs.values()) if f.spec.number not in started]
        for facts in waiting[:MOST_REASONS]:
            number = facts.spec.number
            self._next[number] = round_.why.get(number) or BlockReason(AHEAD)
        self._places |= round_.places
        if waiting:
            self._expect(waiting[:MOST_REASONS], round_)

    def _expect(self, waiting: Sequence[JobFacts], round_: DispatchRound) -> None:
        at = time.time()
        if time.monotonic() - self._learned_at >= LEARN_SECONDS:
            self._learned_at, self._learned = time.monotonic(), learned(self._jobs.values())
        ends = expected_ends(self._jobs, self._known, self._learned, at)
        uuids = [status.device.uuid for status in round_.view.snapshot.devices]
        devices = [ends.get(uuid, BusyUntil(inf)) for uuid in uuids]
        waiting = [one for one in waiting if one.spec.number not in round_.begins]
        booked = [round_.booked.get(uuid, ()) for uuid in uuids]
        self._expected |= expected_starts(waiting, devices, self._learned, booked)
        self._expected |= {number: ExpectedStart(b, 0) for number, b in round_.begins.items()}

    def why(self, number: int) -> str:
        found = self._next.get(number)
        return (found.reason if found else "") or (
            self._now[number].reason if number in self._now else ""
        )

    def publish(self) -> None:
        now = time.monotonic()
        if now - self._published < PUBLISH_SECONDS:
            return
        self._published, at = now, time.time()
        self._now = {n: self._holdup(n, block, at) for n, block in self._next.items()}
        if self._now != self._written:
            self._folder.write_holdups(self._now, at)
            self._written = dict(self._now)

    def _holdup(self, number: int, block: BlockReason, at: float) -> Holdup:
        before, expected = self._now.get(number), self._expected.get(number)
        since = before.since if before is not None else at
        start = None if expected is None else round(expected.at / 10) * 10.0
        runs = 0 if expected is None else expected.runs
        place = self._places.get(number)
        return Holdup(block.reason, since, start, runs, block.details, place)
