"""The items of a map as jobs of a cluster: a job for each call, all asked for at once."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import AndonError, Gone, Unavailable
from andon.failures.rules.backoff import doubled_seconds
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.submitting import new_submission
from andon.leases.placement import Placement
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import JobAct, Submission
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec
from andon.runs.record import RunRecorder
from andon.runs.rules.ranks import run_variables
from andon.units import counted
from andon.work.map.calls import CallEnd, CallOutput, new_file
from andon.work.map.places import MapPlace
from andon.work.map.pool import MapListener, Notify, WorkerPool
from andon.work.rules.map.plan import MapPlan, MapUnit

FIRST_POLL_SECONDS, TICK_SECONDS = 0.5, 0.1
LOG_BYTES = 1 << 20
MOST_LOG_TRIES = 3
WAITS = frozenset((JobState.WAITING, JobState.HELD, JobState.LATER))


class MapJobs(Struct, frozen=True):
    """How the jobs of a map are made, and where they go."""

    desk: ClusterDesk
    spec: Callable[[Sequence[str]], JobSpec]  # of a command
    options: tuple[str, ...] = ()

    def submission(
        self, command: Sequence[str], recorder: RunRecorder | None = None, **more: Any
    ) -> Submission:
        """Returns a job of the map; without its record, to see whether the cluster takes it."""
        spec = self.spec(command)
        if recorder is not None:
            run = recorder.begin.id
            told = run_variables(run, str(recorder.path.absolute()))
            spec = replace(spec, group=f"map:{run}", environment={**spec.environment, **told})
        return new_submission(spec, options=self.options, **more)

    def listed(self) -> Sequence[ClusterJob] | None:
        """Returns the user's jobs on the cluster; None if it does not answer, which may pass."""
        try:
            return self.desk.latest().jobs
        except Unavailable:
            return None

    def cancel(self, ids: Sequence[str], notify: Notify) -> None:
        failed = [one.error for one in self.desk.act(JobAct.CANCEL, ids) if one.error is not None]
        notify(failed[0].reason if failed else f"{self._words(ids)} asked to end")

    def _words(self, ids: Sequence[str]) -> str:
        if len(ids) == 1:
            return f"job {self.desk.name}:{ids[0]} is"
        return f"{counted(len(ids), 'job')} on {self.desk.name} are"


class ClusterPool(WorkerPool):
    """What a map on a cluster does, however its items become jobs: it looks, rests, and looks
    again, in one thread."""

    most_rest_seconds = FRESH_SECONDS

    def __init__(self, jobs: MapJobs, plan: MapPlan, notify: Notify) -> None:
        self._jobs, self.plan, self._notify = jobs, plan, notify
        self.unsampled = f"no device was read on {jobs.desk.name}"
        self._ending = False
        self._recorder: RunRecorder
        self._listener: MapListener

    def end(self, number: int = 0) -> None:
        self._ending = True

    def run(
        self,
        first: Sequence[Placement],
        recorder: RunRecorder,
        listener: MapListener,
        tick: Callable[[], None],
    ) -> None:
        self._recorder, self._listener, quiet = recorder, listener, 0
        self._begin()
        while not self._ending:
            before = self.plan.done + self.plan.failed
            if self._look():
                self._leave()
                return
            quiet = quiet + 1 if self.plan.done + self.plan.failed == before else 0
            self._rest(doubled_seconds(quiet, FIRST_POLL_SECONDS, self.most_rest_seconds), tick)
        self._kill()

    def _rest(self, seconds: float, tick: Callable[[], None]) -> None:
        until, stopped = time.monotonic() + seconds, self.plan.stopped
        while not self._ending and self.plan.stopped == stopped and time.monotonic() < until:
            tick()
            time.sleep(TICK_SECONDS)

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _look(self) -> bool:
        """Does what is to do now; returns whether nothing is left."""

    def _leave(self) -> None:
        """Does what is left once all items have ended."""

    @abstractmethod
    def _kill(self) -> None: ...

    def _settle(
        self, unit: MapUnit, place: MapPlace, end: CallEnd, at: float | None = None
    ) -> None:
        state = self.plan.ended(unit, end.ok, time.monotonic())
        self._listener.ended(unit, place, end, state, at)


class _Call(Struct):
    """A call and its job."""

    unit: MapUnit
    submission: Submission
    began: float = field(default_factory=time.monotonic)
    id: str | None = None  # None: the cluster has not answered
    tries: int = 0  # to read its output


class JobPool(ClusterPool):
    """A job of the cluster for each call, so many at once."""

    def __init__(
        self,
        jobs: MapJobs,
        plan: MapPlan,
        notify: Notify,
        command: Callable[[MapUnit], Sequence[str]],
        most: int,
    ) -> None:
        super().__init__(jobs, plan, notify)
        self._command, self._most = command, most
        self._place = MapPlace(jobs.desk.name)
        self._calls: list[_Call] = []
        self._accepted = False
        self._away: str | None = None

    @property
    def workers(self) -> list[str]:
        return [self._place.label] * len(self._calls)

    def first(self) -> list[Placement]:
        unit = MapUnit(tuple(self.plan.items[: max(1, self.plan.per_call)]))
        refuse(self._jobs.desk, [self._jobs.submission(self._command(unit))])
        return []

    def _begin(self) -> None:
        most = min(self._most, self.plan.waiting)
        items = counted(len(self.plan.items), "item")
        more = f", {most} at once" if most > 1 else ""
        self._notify(f"{items} on {self._jobs.desk.name}{more} (run {self._recorder.begin.id})")

    def _look(self) -> bool:
        self._send()
        found = self._jobs.listed() if self._calls else []
        if found is not None:
            jobs = {job.id: job for job in found}
            self._withdraw(jobs)
            for call in [one for one in self._calls if one.id is not None]:
                self._take(call, jobs.get(call.id or ""))
        return self.plan.over

    def _send(self) -> None:
        """Submits as many calls as may wait or run; one that got no answer is sent again under
        its label, which makes no second job."""
        for call in [one for one in self._calls if one.id is None]:
            self._submit(call)
        while all(one.id for one in self._calls) and len(self._calls) < self._most:
            unit = None if self._ending else self.plan.take(time.monotonic())
            if unit is None:
                return
            command = self._command(unit)
            self._calls.append(_Call(unit, self._jobs.submission(command, self._recorder)))
            self._listener.joined(self._place)
            self._listener.began(unit, self._place)
            self._submit(self._calls[-1])

    def _submit(self, call: _Call) -> None:
        try:
            (accepted,) = self._jobs.desk.submit([call.submission])
        except Unavailable as error:
            if not self._accepted:
                raise
            if error.reason != self._away:
                self._notify(f"{error.reason}; trying again")
            self._away = error.reason
        else:
            self._accepted, self._away = True, None
            call.id = self._jobs.desk.id_of(accepted.label)

    def _withdraw(self, jobs: Mapping[str, ClusterJob]) -> None:
        """Once no further item may begin, cancels the jobs that wait."""
        if not self.plan.stopped:
            return
        waiting = {id_ for id_, job in jobs.items() if job.state in WAITS}
        found = [one for one in self._calls if one.id is None or one.id in waiting]
        if ids := [one.id for one in found if one.id is not None]:
            self._jobs.cancel(ids, self._notify)
        for call in found:
            self.plan.returned(call.unit)
            self._listener.withdrawn(call.unit, self._place)
            self._drop(call)

    def _take(self, call: _Call, job: ClusterJob | None) -> None:
        if job is None:
            self._end(call, False, "it is no longer known")
        elif job.state.is_settled and (output := self._output(call)) is not None:
            ok = job.state is JobState.SUCCEEDED
            self._end(call, ok, "" if ok else job.reason or job.state.words, job, output)

    def _end(
        self,
        call: _Call,
        ok: bool,
        words: str,
        job: ClusterJob | None = None,
        output: CallOutput | None = None,
    ) -> None:
        seconds = time.monotonic() - call.began
        if job is not None and job.started is not None and job.ended is not None:
            seconds = max(0.0, job.ended - job.started)
        where = None if job is None or job.where is None else job.where.replace(" GPU ", ":")
        place, ended = MapPlace(where or self._place.label), None if job is None else job.ended
        self._settle(call.unit, place, CallEnd(ok, seconds, words, output), ended)
        self._drop(call)

    def _drop(self, call: _Call) -> None:
        self._calls.remove(call)
        self._listener.left(self._place)

    def _output(self, call: _Call) -> CallOutput | None:
        """Returns what its job printed; None if it is to be asked again. An output that stays
        away does not keep its item from ending."""
        file, start = new_file(), 0
        try:
            while (part := self._jobs.desk.log(call.id or "", start, LOG_BYTES)).text:
                file.write(part.text.encode())
                start = part.end
        except Gone:
            pass  # it printed nothing
        except AndonError as error:
            call.tries += 1
            if call.tries < MOST_LOG_TRIES:
                file.close()
                return None
            self._notify(f"the output of item {call.unit.items[0].shown} is lost: {error.reason}")
        file.flush()
        return CallOutput.of(file)

    def _kill(self) -> None:
        if ids := [one.id for one in self._calls if one.id is not None]:
            self._jobs.cancel(ids, self._notify)
        for call in list(self._calls):
            self._end(call, False, "cancelled")


def still_waiting(jobs: Iterable[ClusterJob]) -> list[str]:
    return [job.id for job in jobs if job.state in WAITS]
