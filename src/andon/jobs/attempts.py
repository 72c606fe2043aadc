"""The running attempts: their records, their results, and their notifications."""

import logging
import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import read_tail
from andon.jobs.folder import VERDICT, JobsFolder, write_whole
from andon.jobs.launching import AttemptRun
from andon.jobs.record import (
    FactsFinder,
    JobRecorder,
    begin_record,
    continued,
    new_record,
    record_of,
    start_recorder,
)
from andon.jobs.rules.states import is_running
from andon.leases.placement import Grant
from andon.model.job import AttemptFacts, AttemptVerdict, JobFacts, JobSpec
from andon.model.job.facts import dumps, verdict_to_json
from andon.model.lease import Owner
from andon.runs.record import SampleSource
from andon.work.output_tail import TAIL_BYTES
from andon.work.preparing import bound_line, bound_to, free_port

log = logging.getLogger("andon.jobs")
Place = tuple[int, int]
"""The number of a job, and of its attempt."""


class AttemptRecorder:
    """Records every attempt of this folder, whichever dispatcher began it."""

    def __init__(self, folder: JobsFolder, source: Callable[[JobSpec], SampleSource | None]):
        self._folder, self._source = folder, source
        self._recorders: dict[Place, JobRecorder] = {}
        self._seen: set[Place] = set()
        self._unwritten: dict[Place, AttemptVerdict] = {}
        self._facts = FactsFinder()
        self._ports: dict[Place, int] = {}

    def begin(self, spec: JobSpec, attempt: int, grant: Grant, owner: Owner) -> AttemptRun:
        """Begins the record of an attempt before it starts: the command gets its path."""
        place, chosen = (spec.number, attempt), grant.candidates.choice.chosen
        begin = begin_record(spec, attempt, grant, owner)
        path = new_record(begin)
        free = [capacity.free_bytes for capacity in chosen if capacity.free_bytes is not None]
        source = self._source(spec)
        if source is not None:
            recorder = start_recorder(begin, path, source, spec, self._facts)
            self._recorders[place] = JobRecorder(recorder, min(free, default=None))
        bound = bound_to(grant.devices) if spec.bind else None
        if bound is not None and source is not None:
            recorder.write(bound_line(bound))
        self._seen.add(place)
        port = free_port(frozenset(self._ports.values()))
        if port is not None:
            self._ports[place] = port
        return AttemptRun(
            grant, grant.held, begin.id, path, port, None if bound is None else bound.cpus
        )

    def discard(self, number: int, attempt: int) -> None:
        """Drops an attempt that did not start: there is nothing to record."""
        self._seen.discard((number, attempt))
        self._ports.pop((number, attempt), None)
        found = self._recorders.pop((number, attempt), None)
        if found is not None:
            found.abandon()

    def follow(self, jobs: dict[int, JobFacts]) -> set[int]:
        """Continues records that another dispatcher began, and completes those whose attempt is
        over. Returns the numbers of the completed jobs, which it changes in `jobs`."""
        completed: set[int] = set()
        for number, facts in list(jobs.items()):
            last = facts.last
            if last is None or last.verdict is not None:
                continue
            place = (number, last.number)
            if is_running(last):
                if place not in self._seen:
                    self._adopt(facts, last)
            else:
                jobs[number] = self._complete(facts, last)
                completed.add(number)
        return completed

    def _adopt(self, facts: JobFacts, attempt: AttemptFacts) -> None:
        place = (facts.spec.number, attempt.number)
        self._seen.add(place)
        path = record_of(attempt)
        recorder = None if path is None else continued(path, self._source(facts.spec))
        if recorder is not None:
            self._recorders[place] = JobRecorder(recorder)

    def _complete(self, facts: JobFacts, attempt: AttemptFacts) -> JobFacts:
        number = facts.spec.number
        place = (number, attempt.number)
        verdict = self._unwritten.get(place)
        if verdict is None:
            verdict = self._judge(facts, attempt)
            self._ports.pop(place, None)
        folder = self._folder.attempt(number, attempt.number)
        try:
            text = dumps(verdict_to_json(verdict))
            # Not synced: after a crash of the machine the next dispatcher judges again.
            write_whole(folder, VERDICT, text, sync=False)
            self._unwritten.pop(place, None)
        except OSError as exc:  # a full disk: kept here until there is room
            if place not in self._unwritten:
                log.warning("job %s: what came of it cannot be written: %s", number, exc.strerror)
            self._unwritten[place] = verdict
        done = replace(attempt, verdict=verdict)
        return replace(facts, attempts=(*facts.attempts[:-1], done))

    def _judge(self, facts: JobFacts, attempt: AttemptFacts) -> AttemptVerdict:
        place = (facts.spec.number, attempt.number)
        tail = read_tail(self._folder.output(*place), TAIL_BYTES)
        found = self._recorders.pop(place, None)
        if found is None:
            path = record_of(attempt)
            recorder = None if path is None else continued(path, None)
            found = None if recorder is None else JobRecorder(recorder)
        if found is None:
            return JobRecorder.without_record(attempt.end, tail)
        return found.finish(attempt.end, tail)

    def close(self) -> None:
        """Closes the records; the next dispatcher continues those that are not complete."""
        for found in self._recorders.values():
            found.pause()
        self._recorders = {}


class Notifications:
    """Sends messages about jobs in a thread of its own: the dispatcher must not wait for a
    network.

    Messages that come while one is being sent are combined into the next: the end of a whole
    array is one or two messages, and one notifier process at a time.
    """

    def __init__(self, send: Callable[[Sequence[JobFacts]], None]) -> None:
        self._send = send
        self._waiting: list[JobFacts] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def is_sending(self) -> bool:
        return self._thread is not None

    def tell(self, facts: JobFacts) -> None:
        with self._lock:
            self._waiting.append(facts)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
                self._thread.start()

    def close(self, seconds: float) -> None:
        if (thread := self._thread) is not None:
            thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                told, self._waiting = self._waiting, []
                if not told:
                    self._thread = None
                    return
            first, more = told[0].spec.label, len(told) - 1
            which = f"job {first} and {more} more" if more else f"job {first}"
            try:
                self._send(told)
            except AndonError as error:
                log.error("%s: no one could be notified: %s", which, error.reason)
            except Exception:
                log.exception("%s: no one could be notified", which)
