"""The dispatcher of one user's jobs on one machine: scans, plans, starts and records them."""

import errno
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from andon.checks.rules.before_work import AfterCheck
from andon.errors import AndonError
from andon.failures.log import FailureLog
from andon.host.clock import boot_seconds
from andon.host.files import free_bytes
from andon.host.processes.kin import pid_scope
from andon.jobs.acts import cancel
from andon.jobs.adopting import ContainerAdopter
from andon.jobs.attempts import AttemptRecorder, Notifications
from andon.jobs.checking import CheckedLease, JobChecks
from andon.jobs.folder import EXPIRED, HELD, JobsFolder
from andon.jobs.launching import DispatcherSettings, Supervisor, SupervisorPool, task_for
from andon.jobs.publishing import HoldupWriter
from andon.jobs.rules.order import in_order
from andon.jobs.rules.states import JobStatus, has_work
from andon.jobs.rules.waiting import insufficient, waited_seconds
from andon.jobs.scan import Scanner, StatusCache
from andon.jobs.taking import MOST_TICKETS, BlockReason, DeviceTaker, DispatchRound
from andon.leases.book.hold import LeaseHold
from andon.leases.placement import Grant
from andon.model.job.facts import JobFacts, JobNote, JobState
from andon.model.job.spec import JobSpec, NotifyWhen
from andon.runs.opening import RunRecording

log = logging.getLogger("andon.jobs")
FULL_SECONDS = 5.0  # between two scans without any news
CROWD, CROWD_SECONDS = 1000, 0.25  # a folder of so many jobs is scanned so often at most
FIGURES_SECONDS = 1.0  # between two reads of what running jobs print
DEVICE_POLL_SECONDS = 1.0  # between two reads of the devices while jobs wait
NO_DEVICE_SECONDS = 5.0  # the same after the devices could not be read
BUSY_NAP_SECONDS, NAP_SECONDS = 0.03, 0.2
FAILED_SECONDS = 1.0  # after an unexpected error
BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 10.0, 160.0
"""Before a job that could not be started is tried again; twice as long after each failure."""
ROOM_BYTES = 64 * 1024  # this much more free space on a full disk lets a job start again
DISK_FULL_ERRORS = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
ANSWER_SECONDS = 30.0  # for a supervisor to claim its attempt
JUST_HELD = "it has just been held"
IN_TURN = "other users wait too: your jobs start one at a time"
FAILING = frozenset((JobState.FAILED, JobState.TIMED_OUT, JobState.LOST))

Kind = tuple[int | None, str, str]
"""Real devices (None) or so many simulated ones, their scenario, and the lease book: each has a
sampler of its own."""


class _Starting(Struct, frozen=True):
    """A job that was sent to a supervisor, which has not claimed it yet."""

    attempt: int
    supervisor: Supervisor
    held: LeaseHold
    until: float
    adopts: bool = False  # it takes over a container: the lease stays whatever it says


class _BackOff(Struct, frozen=True):
    """A job that could not be started, and the time before which it is not retried."""

    due: float
    reason: str
    room_bytes: int | None = None  # what a full disk had left then

    def has_room(self, free: int | None) -> bool:
        """Whether the start failed because the disk was full, and space is free again."""
        if self.room_bytes is None or free is None:
            return False
        return free >= self.room_bytes + ROOM_BYTES


def kind_of(spec: JobSpec) -> Kind:
    return spec.simulate, "" if spec.simulate is None else spec.scenario, spec.book


class Dispatcher:
    """The dispatcher without its lock, which the caller holds."""

    def __init__(
        self,
        folder: JobsFolder,
        settings: DispatcherSettings,
        open_taker: Callable[[Kind], DeviceTaker],
        notify: Callable[[Sequence[JobFacts]], None],
    ) -> None:
        self._folder, self._settings, self._open_taker = folder, settings, open_taker
        self._scanner = Scanner(folder)
        self._recorder = AttemptRecorder(folder, self._recording)
        self._pool = SupervisorPool()
        self._notifications = Notifications(folder, notify, settings.notify)
        self._board = HoldupWriter(folder)
        self._adopter = ContainerAdopter(folder, settings)
        self._checks = JobChecks(folder)
        self._takers: dict[Kind, DeviceTaker] = {}
        self._troubles: dict[Kind, tuple[float, str]] = {}
        self._starting: dict[int, _Starting] = {}
        self._running: list[Supervisor] = []
        self._later: dict[int, _BackOff] = {}  # jobs that could not be started
        self._failures: dict[int, int] = {}  # how often in a row
        self._notified: dict[int, int] = {}  # the attempts whose end was notified
        self._jobs: dict[int, JobFacts] = {}
        self._is_followed = False  # whether all attempts in `_jobs` are recorded or completed
        self._known: dict[int, JobStatus] = {}
        self._status_cache = StatusCache()
        self.changed_at = 0
        self._scanned = self._polled_at = self._figured = 0.0
        self._books: dict[Kind, frozenset[str]] = {}
        self._idle_since: float | None = None

    # The loop.

    def run(
        self, failed_seconds: float = FAILED_SECONDS, works: Callable[[], None] = lambda: None
    ) -> None:
        """Dispatches until there has been nothing to do for a while; calls `works` at each turn."""
        failures = FailureLog("andon.jobs", "the dispatcher continues after an error")
        while True:
            works()
            try:
                self.step()
                if self.is_idle():
                    return
            except Exception as exc:  # noqa: BLE001 - whatever it is, jobs must go on
                failures.add(exc)
                time.sleep(failed_seconds)
            busy = self._starting or any(s.state is JobState.RUNNING for s in self._known.values())
            time.sleep(BUSY_NAP_SECONDS if busy else NAP_SECONDS)

    def is_idle(self) -> bool:
        """Whether there is nothing to do; also if the folder has been deleted: no more jobs can
        arrive."""
        now = time.monotonic()
        if not self._folder.path.is_dir():
            return True
        if self._has_work():
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        return (
            self._idle_since is not None and now - self._idle_since >= self._settings.idle_seconds
        )

    def _has_work(self) -> bool:
        busy = bool(self._starting) or self._notifications.is_sending
        return busy or has_work(self._known.values(), self._folder.paused)

    def step(self) -> None:
        self._answers()
        changed = self._refresh()
        completed = set[int]()
        if not self._is_followed:
            completed = self._recorder.follow(self._jobs)
            self._is_followed = True
        self._end_checks()
        if changed or completed:
            changed = True
            self._judge(completed)
        self._read_figures()
        self._adopt_containers()
        if changed or self._is_poll_due():
            self._dispatch()
        self._board.publish()

    def close(self) -> None:
        """Ends the dispatcher; running jobs continue, and the next one starts waiting jobs."""
        self._recorder.close()
        self._pool.close()
        for taker in self._takers.values():
            taker.close()
        self._notifications.close(10.0)

    # Reading.

    def _refresh(self) -> bool:
        """Reads what changed; returns whether anything did."""
        now, changed_at = time.monotonic(), self._folder.changed_at()
        pause = CROWD_SECONDS if len(self._jobs) > CROWD else 0.0
        news = changed_at != self.changed_at and now - self._scanned >= pause
        if news or now - self._scanned >= FULL_SECONDS:
            self.changed_at, self._scanned = changed_at, now
            before, self._jobs = self._jobs, self._scanner.scan()
            self._is_followed = False
            self._scanner.save()
            return news or before.keys() != self._jobs.keys()
        changed = False
        for number, found in self._known.items():
            if found.state is JobState.RUNNING and number in self._jobs:
                fresh = self._scanner.again(number)
                if fresh is not None and fresh != self._jobs[number]:
                    self._jobs[number] = fresh
                    changed, self._is_followed = True, False
        return changed

    def _judge(self, completed: Collection[int] = ()) -> None:
        """Announces jobs that have just settled; of those that settled before this dispatcher
        started only those whose attempt it completed, or about which nobody was notified."""
        before = self._known
        self._known = self._status_cache.judge(self._jobs, time.time(), self._folder.paused)
        for number, found in self._known.items():
            was = before.get(number)
            if self._settings.notify_turn and _has_its_turn(was, found):
                self._notifications.notify_later(self._jobs[number])
            if not found.state.is_settled or (was is not None and was.state.is_settled):
                continue
            facts = self._jobs[number]
            if before or number in completed or self._notifications.is_unsent(facts):
                self._settled(facts, found)

    def _settled(self, facts: JobFacts, found: JobStatus) -> None:
        number = facts.spec.number
        wish = self._notifications.wish(facts)
        log.info("job %s: %s%s", facts.spec.label, found.state.text, _more(found.reason))
        if wish is None or self._notified.get(number) == found.attempt:
            return
        self._notified[number] = found.attempt
        ended = [facts] if facts.spec.group is None else self._ended_group(facts.spec.group)
        if wish is NotifyWhen.FAIL:
            ended = [one for one in ended if self._known[one.spec.number].state in FAILING]
        if ended:
            self._notifications.notify_later(*ended)

    def _ended_group(self, group: str) -> list[JobFacts]:
        """Returns a group's jobs whose end is to be notified; empty until all have ended."""
        jobs = [one for one in self._jobs.values() if one.spec.group == group]
        if not all(self._known[one.spec.number].state.is_settled for one in jobs):
            return []
        ended = [one for one in jobs if self._notifications.wish(one) is not None]
        self._notified |= {n: self._known[n].attempt for n in (one.spec.number for one in ended)}
        return ended

    def _read_figures(self) -> None:
        """Records the figures that jobs print, and cancels those that are hopeless by them."""
        now = time.monotonic()
        if now - self._figured < FIGURES_SECONDS:
            return
        self._figured = now
        running = {n: found for n, found in self._known.items() if found.state is JobState.RUNNING}
        jobs = {number: self._jobs[number] for number in running if number in self._jobs}
        for number, why in self._recorder.read_figures(jobs).items():
            log.info("job %s: %s", number, why)
            with suppress(AndonError):
                cancel(self._folder, jobs[number], running[number], reason=why)

    def _is_poll_due(self) -> bool:
        """Whether to read the devices: once a second, and when a lease is added or removed."""
        now = time.monotonic()
        if not any(
            found.state in (JobState.WAITING, JobState.LATER) for found in self._known.values()
        ):
            return False
        if now - self._polled_at >= DEVICE_POLL_SECONDS:
            return True
        return any(taker.names() != self._books.get(kind) for kind, taker in self._takers.items())

    # Starting.

    def _dispatch(self) -> None:
        self._polled_at = time.monotonic()
        self._judge()
        self._board.begin(self._jobs, self._known)
        by_kind: dict[Kind, list[JobFacts]] = {}
        for number, found in self._known.items():
            if found.is_ready and not (self._is_starting(number) or self._is_backing_off(number)):
                by_kind.setdefault(kind_of(self._jobs[number].spec), []).append(self._jobs[number])
        for number, text in self._checks.texts():
            self._board.waits(number, text)
        for kind in [kind for kind in self._takers if kind not in by_kind]:
            self._takers[kind].leave()
        for kind, jobs in by_kind.items():
            # Those that could not be started come last: many of them would keep out all others.
            ordered = sorted(in_order(jobs), key=lambda one: one.spec.number in self._failures)
            self._start_kind(kind, ordered)
        self._expire()

    def _start_kind(self, kind: Kind, jobs: list[JobFacts]) -> None:
        """Starts jobs on devices of one kind; a kind that cannot be read does not affect the
        other."""
        due, why = self._troubles.get(kind, (0.0, ""))
        if time.monotonic() < due:
            self._board.all_wait(jobs, why)
            return
        try:
            taker = self._taker(kind)
            self._books[kind] = taker.names()
            found = taker.decide(jobs, self._checks.avoided())
            for blocked in found.plan.blocked:
                self._checks.blocked(blocked.number)
            for number, reason in found.vain.items():
                self._fail(number, reason)
            self._start_planned(taker, found, {one.spec.number: one for one in jobs})
            self._troubles.pop(kind, None)
        except AndonError as error:
            text = f"{error.reason}; {error.hint}" if error.hint else error.reason
            self._troubles[kind] = (time.monotonic() + NO_DEVICE_SECONDS, text)
            self._board.all_wait(jobs, text)

    def _start_planned(
        self, taker: DeviceTaker, found: DispatchRound, jobs: Mapping[int, JobFacts]
    ) -> None:
        starts, took_turn = found.plan.starts[: MOST_TICKETS if found.others else None], False
        for later in found.plan.starts[len(starts) :]:
            found.why[later.number] = BlockReason(IN_TURN)
        self._pool.prepare(min(1, len(starts)) if found.others else len(starts))
        for start in starts:
            if took_turn and found.others:
                found.why[start.number] = BlockReason(IN_TURN)
                continue
            if (self._folder.job(start.number) / HELD).exists():  # since the plan was made
                found.why[start.number] = BlockReason(JUST_HELD)
                continue
            supervisor = self._pool.take()
            got = taker.take(jobs[start.number], found, start.uuids, supervisor)
            if isinstance(got, BlockReason):  # another of ours may be further ahead in the queue
                found.why[start.number] = got
                self._pool.give(supervisor)
            else:
                took_turn = True
                try:
                    if found.others:  # before it starts: it may end at once, and they would pass us
                        taker.stand_in_line(jobs, found)
                finally:
                    self._check_or_launch(jobs[start.number], got, supervisor, taker)
        taker.stand_in_line(jobs, found)
        self._books[kind_of(next(iter(jobs.values())).spec)] = taker.names()
        self._checks.explain(found)
        self._board.found(found, jobs)

    def _check_or_launch(
        self, facts: JobFacts, grant: Grant, supervisor: Supervisor, taker: DeviceTaker
    ) -> None:
        if facts.spec.check and grant.devices:
            number = facts.spec.number
            lease = CheckedLease(self._known[number].attempt, grant, supervisor)
            self._checks.begin(number, lease, taker.sampler)
        else:
            self._launch(facts, grant, supervisor)

    def _end_checks(self) -> None:
        """Starts the jobs whose devices are well, and gives the others back."""
        for number, one in self._checks.over(self._is_ready):
            self._polled_at = 0.0
            if not self._is_ready(number):  # cancelled, or held
                one.give_back(self._pool)
                self._checks.forget(number)
                continue
            what, why = self._checks.judge(number, one)
            if what is AfterCheck.USE:
                self._launch(self._jobs[number], one.grant, one.supervisor)
                continue
            one.give_back(self._pool)
            if what is AfterCheck.REFUSE:
                self._fail(number, why)

    def _is_ready(self, number: int) -> bool:
        return number in self._known and self._known[number].is_ready

    def _is_starting(self, number: int) -> bool:
        return number in self._starting or number in self._checks

    def _launch(self, facts: JobFacts, grant: Grant, supervisor: Supervisor) -> None:
        number, attempt = facts.spec.number, self._known[facts.spec.number].attempt
        try:
            spec = self._folder.spec(number)
            placed = self._recorder.begin(spec, attempt, grant, grant.held.lease.owner)
            task = task_for(self._folder, spec, attempt, placed, self._settings)
            supervisor.send(task, grant.held)
        except (AndonError, OSError) as error:
            supervisor.kill()  # before the lease goes: it must not claim any more
            grant.held.release()
            self._recorder.discard(number, attempt)
            self._back_off(number, f"it could not be started: {error}")
            return
        until = time.monotonic() + ANSWER_SECONDS
        self._starting[number] = _Starting(attempt, supervisor, grant.held, until)

    def _adopt_containers(self) -> None:
        """Starts a new supervisor for each job whose container is running without one."""
        for number, found in self._known.items():
            if found.state is not JobState.RUNNING or number in self._starting:
                continue
            facts = self._jobs[number]
            attempt = self._adopter.needs(facts)
            if attempt is None:
                continue
            supervisor = self._pool.take()
            ready = self._adopter.prepare(facts, attempt, supervisor)
            if ready is None:
                self._pool.give(supervisor)
                continue
            held, task = ready
            try:
                supervisor.send(task, held)
            except OSError:
                supervisor.kill()
                held.hold.close()
                continue
            until = time.monotonic() + ANSWER_SECONDS
            self._starting[number] = _Starting(attempt.number, supervisor, held, until, True)

    def _answers(self) -> None:
        self._running = [one for one in self._running if not one.has_ended]
        self._pool.reap()
        answered = False
        for number, one in list(self._starting.items()):
            answer = one.supervisor.answer()
            if answer is None and time.monotonic() < one.until:
                continue
            answered = True
            del self._starting[number]
            if answer == "claimed":
                one.held.hold.close()  # the supervisor's copy is the lease now
                self._failures.pop(number, None)
                self._running.append(one.supervisor)
            elif one.adopts:
                one.supervisor.kill()
                one.held.hold.close()  # the container goes on, and is adopted later
            else:
                one.supervisor.kill()  # before the lease goes: it must not claim any more
                one.held.release()
                self._failed_start(number, one.attempt, answer)
            fresh = self._scanner.again(number)
            if fresh is not None:
                self._jobs[number] = fresh
                self._is_followed = False
        if answered:
            self._judge()

    def _failed_start(self, number: int, attempt: int, answer: str | None) -> None:
        fresh = self._scanner.again(number)
        last = None if fresh is None else fresh.last
        if last is None or last.number < attempt:  # nothing has started
            self._recorder.discard(number, attempt)
        reason = (
            "its supervisor did not answer" if answer is None else answer.removeprefix("failed ")
        )
        if answer != "taken":
            self._back_off(number, f"it could not be started: {reason or 'its supervisor died'}")

    def _back_off(self, number: int, reason: str) -> None:
        log.warning("job %s: %s", number, reason)
        before = self._failures.get(number, 0)
        self._failures[number] = before + 1
        pause = min(BACKOFF_SECONDS * 2 ** min(before, 10), MOST_BACKOFF_SECONDS)
        is_full = any(error in reason for error in DISK_FULL_ERRORS)
        room = free_bytes(self._folder.path) if is_full else None
        self._later[number] = _BackOff(time.monotonic() + pause, reason, room)
        self._polled_at = 0.0  # another one may start on its devices at once

    def _is_backing_off(self, number: int) -> bool:
        if number not in self._later:
            return False
        found = self._later[number]
        if time.monotonic() >= found.due or found.has_room(free_bytes(self._folder.path)):
            del self._later[number]
            return False
        self._board.waits(number, found.reason)
        return True

    def _expire(self) -> None:
        """Fails jobs that waited longer than their --timeout, for good."""
        at, boot, since_boot = time.time(), pid_scope().boot, boot_seconds()
        for number, found in self._known.items():
            facts = self._jobs[number]
            limit = facts.spec.timeout_seconds
            if limit is None or not found.is_ready or self._is_starting(number):
                continue
            waited = waited_seconds(facts, at, boot, since_boot, self._ready_at(facts))
            if waited >= limit:
                self._fail(number, insufficient(waited, self._board.why(number)))
        self._judge()

    def _fail(self, number: int, reason: str) -> None:
        """Marks a waiting job as failed, so that it does not start any more."""
        note = JobNote(self._known[number].attempt, time.time(), "", reason)
        with suppress(AndonError):
            self._folder.note(number, EXPIRED, note)
            self._jobs[number] = self._scanner.again(number) or self._jobs[number]
            self._is_followed = False

    def _ready_at(self, facts: JobFacts) -> float:
        """Returns when the last job that this one waited for ended."""
        others = (self._jobs.get(number) for number in (*facts.spec.after, *facts.spec.after_any))
        lasts = (other.last for other in others if other is not None)
        ends = [last.end.ended for last in lasts if last is not None and last.end is not None]
        return max(ends, default=0.0)

    # Parts.

    def _taker(self, kind: Kind) -> DeviceTaker:
        if kind not in self._takers:
            self._takers[kind] = self._open_taker(kind)
        return self._takers[kind]

    def _recording(self, spec: JobSpec) -> RunRecording:
        with suppress(AndonError):
            return self._taker(kind_of(spec)).recording
        return RunRecording()


def _more(reason: str | None) -> str:
    return f" ({reason})" if reason else ""


def _has_its_turn(was: JobStatus | None, found: JobStatus) -> bool:
    waited = was is not None and was.state in (JobState.WAITING, JobState.LATER)
    return waited and found.state is JobState.RUNNING
