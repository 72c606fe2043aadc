"""The running attempts: their records, their results, and their notifications."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import read_tail, read_text
from andon.jobs.folder import NOTIFIED, VERDICT, JobsFolder, write_whole
from andon.jobs.launching import AttemptRun
from andon.jobs.metrics import MetricReader, MetricReaders
from andon.jobs.record import FactsFinder, begin_record, finish
from andon.jobs.rules.retention import settled_at
from andon.jobs.rules.states import is_running
from andon.leases.book.lease_book import Book
from andon.leases.book.places import VARIABLE
from andon.leases.placement import Grant
from andon.model.codec import to_json
from andon.model.job.facts import AttemptFacts, AttemptVerdict, JobFacts, dumps
from andon.model.job.spec import JobSpec, NotifyWhen
from andon.model.lease import Owner
from andon.model.run.record import RunEvent
from andon.runs.opening import RunRecording
from andon.runs.record import RunRecorder
from andon.work.output_tail import TAIL_BYTES
from andon.work.preparing import bound_line, bound_to, free_port

log = logging.getLogger("andon.jobs")
Place = tuple[int, int]
"""The number of a job, and of its attempt."""
JUST_SECONDS = 60.0
UNSENT_SECONDS = 3600.0
"""After this time no message is sent that a killed dispatcher left."""


class AttemptRecorder:
    """Records every attempt of this folder, whichever dispatcher began it."""

    def __init__(self, folder: JobsFolder, recording: Callable[[JobSpec], RunRecording]) -> None:
        self._folder, self._recording = folder, recording
        self._recorders: dict[Place, RunRecorder] = {}
        self._free: dict[Place, int | None] = {}  # bytes on its fullest device when it began
        self._seen: set[Place] = set()
        self._unwritten: dict[Place, AttemptVerdict] = {}
        self._facts = FactsFinder()
        self._ports: dict[Place, int] = {}
        self._figures = MetricReaders()

    def begin(self, spec: JobSpec, attempt: int, grant: Grant, owner: Owner) -> AttemptRun:
        """Begins the record of an attempt before it starts: the command gets its path."""
        place, chosen = (spec.number, attempt), grant.candidates.choice.chosen
        recorder = self._recorders[place] = self._recording(spec).open(
            begin_record(spec, attempt, grant, owner), partial(self._facts.find, spec)
        )
        free = [capacity.free_bytes for capacity in chosen if capacity.free_bytes is not None]
        self._free[place] = min(free, default=None)
        bound = bound_to(grant.devices) if spec.bind else None
        if bound is not None:
            recorder.write(bound_line(bound))
        self._seen.add(place)
        port = free_port(frozenset(self._ports.values()))
        if port is not None:
            self._ports[place] = port
        cpus = None if bound is None else bound.cpus
        return AttemptRun(grant, grant.held, recorder.begin.id, recorder.path, port, cpus)

    def discard(self, number: int, attempt: int) -> None:
        """Drops an attempt that did not start: there is nothing to record."""
        place = (number, attempt)
        self._seen.discard(place)
        self._ports.pop(place, None)
        self._free.pop(place, None)
        found = self._recorders.pop(place, None)
        if found is not None:
            found.discard()

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

    def read_figures(self, jobs: Mapping[int, JobFacts]) -> dict[int, str]:
        """Records the figures that running jobs printed; returns why some are hopeless."""
        hopeless = {}
        for number, facts in jobs.items():
            last = facts.last
            reader = None if last is None or not is_running(last) else self._reader(facts, last)
            if last is None or reader is None:
                continue
            recorder = self._recorders.get((number, last.number))
            for line in reader.read():
                if recorder is not None:
                    recorder.write(line)
            reader.settle()
            why = reader.hopeless(time.time() - last.claim.at)
            if why is not None and facts.cancelled is None:
                hopeless[number] = why
                if recorder is not None:
                    recorder.write(RunEvent(time.time(), why))
        return hopeless

    def _reader(self, facts: JobFacts, attempt: AttemptFacts) -> MetricReader | None:
        place = (facts.spec.number, attempt.number)
        output = self._folder.output(*place)
        return self._figures.of(place, facts.spec, output, attempt.claim.record)

    def _adopt(self, facts: JobFacts, attempt: AttemptFacts) -> None:
        place, record = (facts.spec.number, attempt.number), attempt.claim.record
        self._seen.add(place)
        if record is not None:
            recorder = self._recording(facts.spec).resume(Path(record))
            if recorder is not None:
                self._recorders[place] = recorder

    def _complete(self, facts: JobFacts, attempt: AttemptFacts) -> JobFacts:
        number = facts.spec.number
        place = (number, attempt.number)
        verdict = self._unwritten.get(place)
        if verdict is None:
            _note_end(facts.spec, attempt)
            verdict = self._judge(facts, attempt)
            self._ports.pop(place, None)
        folder = self._folder.attempt(number, attempt.number)
        try:
            text = dumps(to_json(verdict))
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
        place, record = (facts.spec.number, attempt.number), attempt.claim.record
        recorder, free = self._recorders.pop(place, None), self._free.pop(place, None)
        if recorder is None and record is not None:
            recorder = RunRecording().resume(Path(record))
        reader = self._reader(facts, attempt)
        while reader is not None and (lines := reader.read(last=True)):
            for line in lines:
                if recorder is not None:
                    recorder.write(line)
        self._figures.drop(place)
        tail = read_tail(self._folder.output(*place), TAIL_BYTES)
        return finish(recorder, attempt.end, tail, free)

    def close(self) -> None:
        """Closes the records; the next dispatcher continues those that are not complete."""
        for found in self._recorders.values():
            found.pause()
        self._recorders = {}


def _note_end(spec: JobSpec, attempt: AttemptFacts) -> None:
    """Notes which reservations waited for the lease of an attempt that has just ended: its
    supervisor does not."""
    if attempt.end is not None and time.time() - attempt.end.ended < JUST_SECONDS:
        with suppress(AndonError, OSError):
            book = Book({VARIABLE: spec.book} if spec.book else None, make=False)
            book.note_end(attempt.claim.devices, attempt.claim.at)


class Notifications:
    """Sends messages about jobs in a thread of its own: the dispatcher must not wait for a
    network.

    Messages that come while one is being sent are combined into the next: the end of a whole
    array is one or two messages, and one notifier process at a time. What was sent is noted in the
    folder afterwards: a dispatcher that is killed meanwhile leaves it to the next one, so each
    message is sent at least once.
    """

    def __init__(
        self,
        folder: JobsFolder,
        send: Callable[[Sequence[JobFacts]], None],
        usual: NotifyWhen | None = None,
    ) -> None:
        """`usual`: of jobs that say nothing."""
        self._folder, self._send, self._usual = folder, send, usual
        self._waiting: list[JobFacts] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def is_sending(self) -> bool:
        return self._thread is not None

    def wish(self, facts: JobFacts) -> NotifyWhen | None:
        return facts.spec.notify or self._usual

    def is_unsent(self, facts: JobFacts) -> bool:
        """Whether people wait for a message about a job that has just ended."""
        if self.wish(facts) is None or time.time() - settled_at(facts) > UNSENT_SECONDS:
            return False
        return read_text(self._folder.job(facts.spec.number) / NOTIFIED) != _ended_attempt(facts)

    def notify_later(self, *facts: JobFacts) -> None:
        with self._lock:
            self._waiting += facts
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)
                self._thread.start()

    def close(self, seconds: float) -> None:
        if (thread := self._thread) is not None:
            thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                batch, self._waiting = self._waiting, []
                if not batch:
                    self._thread = None
                    return
            first, more = batch[0].spec.label, len(batch) - 1
            which = f"job {first} and {more} more" if more else f"job {first}"
            try:
                self._send(batch)
                for one in filter(_has_ended, batch):
                    place = self._folder.job(one.spec.number)
                    with suppress(OSError):
                        write_whole(place, NOTIFIED, _ended_attempt(one), sync=False)
            except AndonError as error:
                log.error("%s: no one could be notified: %s", which, error.reason)
            except Exception:
                log.exception("%s: no one could be notified", which)


def _has_ended(facts: JobFacts) -> bool:
    return facts.last is None or facts.last.end is not None


def _ended_attempt(facts: JobFacts) -> str:
    return str(0 if facts.last is None else facts.last.number)
