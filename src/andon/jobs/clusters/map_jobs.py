"""Runs each call of a map as a job of a cluster; one request asks for all of them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError, Gone, Unavailable
from andon.failures.rules.backoff import doubled_seconds
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.submitting import new_submission
from andon.leases.placement import Placement
from andon.model.job.cluster import ClusterJob
from andon.model.job.desk import JobAct, Submission
from andon.model.job.facts import WAITS, JobState
from andon.model.job.spec import JobSpec
from andon.runs.record import RunRecorder
from andon.runs.rules.ranks import run_variables
from andon.units import counted
from andon.work.map.calls import CallEnd, CallOutput, new_file
from andon.work.map.pool import Notify
from andon.work.rules.map.plan import MapPlan, MapUnit

FIRST_POLL_SECONDS, TICK_SECONDS = 0.5, 0.1
LOG_BYTES = 1 << 20
MOST_LOG_TRIES = 3
UNLISTED = ClusterJob("-", "", JobState.RUNNING, "", 0.0)
NOT_BEGUN = CallEnd(False, 0.0, begun=False)


class MapJobs(Struct, frozen=True):
    """How the jobs of a map are made, and where they go."""

    desk: ClusterDesk
    spec: Callable[[Sequence[str]], JobSpec]  # of a command
    options: tuple[str, ...] = ()

    def submission(
        self, command: Sequence[str], recorder: RunRecorder | None = None, **more: Any
    ) -> Submission:
        """Returns a job of the map; without `recorder`, one to test that the cluster takes it."""
        spec = self.spec(command)
        if recorder is not None:
            run = recorder.begin.id
            variables = run_variables(run, str(recorder.path.absolute()))
            spec = replace(spec, group=f"map:{run}", environment={**spec.environment, **variables})
        return new_submission(spec, options=self.options, **more)

    def submit(self, job: Submission) -> str:
        (accepted,) = self.desk.submit([job])
        return self.desk.id_of(accepted.label)

    def listed(self, ids: Collection[str]) -> Sequence[ClusterJob] | None:
        """Returns the user's jobs on the cluster, including `ids`; None if it does not answer
        now."""
        try:
            return self.desk.latest(lambda page: page.ids.issuperset(ids)).jobs
        except Unavailable:
            return None

    def cancel(self, ids: Sequence[str], notify: Notify) -> None:
        failed = [one.error for one in self.desk.act(JobAct.CANCEL, ids) if one.error is not None]
        labels = ", ".join(f"{self.desk.name}:{id_}" for id_ in ids)
        went_on = f"{failed[0].reason}; what may go on: {labels}" if failed else ""
        notify(went_on or f"{self._subject(ids)} asked to end")

    def _subject(self, ids: Sequence[str]) -> str:
        if len(ids) == 1:
            return f"job {self.desk.name}:{ids[0]} is"
        return f"{counted(len(ids), 'job')} on {self.desk.name} are"


class JobCaller:
    """Runs each call in a job, for all workers of a map: each waits for its own job, and the first
    whose poll is due asks the cluster for all jobs."""

    def __init__(
        self,
        jobs: MapJobs,
        plan: MapPlan,
        notify: Notify,
        command: Callable[[MapUnit], Sequence[str]],
    ) -> None:
        self._jobs, self._plan, self._notify, self._command = jobs, plan, notify, command
        self._lock = threading.Condition()
        self._due = deque(items[0].index for items in plan.units)  # in the order of the items
        self._left = dict[str, ClusterJob | None]()  # the jobs of calls; None: not known any more
        self._cancelled = set[str]()
        self._polls, self._poll_at, self._stopped = 0, 0.0, False
        self._accepted, self._away, self._ending = False, "", False
        self._recorder: RunRecorder

    def of(self, place: Placement, recorder: RunRecorder) -> Self:
        self._recorder = recorder
        return self

    def end(self, number: int) -> None:
        self._ending = True

    def close(self) -> None:
        pass  # nothing outlives its call

    def call(self, unit: MapUnit) -> CallEnd:
        began = time.monotonic()
        try:
            if (id_ := self._submitted(unit)) is None:
                return NOT_BEGUN
            while not self._is_over(id_):
                time.sleep(TICK_SECONDS)
        except AndonError as error:  # no other job can be submitted or polled either
            self._plan.stop(error.reason)
            self._ending = True
            self._cancel(self._left)
            raise
        with self._lock:
            job, self._polls = self._left.pop(id_), 0
        seconds = time.monotonic() - began
        if job is None or not job.state.is_settled:
            if id_ not in self._cancelled:
                return CallEnd(False, seconds, "it is no longer known")
            return CallEnd(False, seconds, "cancelled") if self._ending else NOT_BEGUN
        ok = job.state is JobState.SUCCEEDED
        return CallEnd(
            ok,
            _seconds(job, seconds),
            "" if ok else job.reason or job.state.text,
            self._output(unit, id_),
            place="" if job.where is None else job.where.replace(" GPU ", ":"),
            at=job.ended,
        )

    def _submitted(self, unit: MapUnit) -> str | None:
        """Submits the job of a call; returns its id, or None if no further one may begin. One that
        got no answer is sent again under its label, which makes no second job."""
        job, tries = None, 0
        with self._lock:
            while not self._ending and self._plan.stopped is None:
                pause = TICK_SECONDS
                if unit.attempt > 1 or self._due[0] == unit.items[0].index:
                    job = job or self._jobs.submission(self._command(unit), self._recorder)
                    if (id_ := self._sent(job)) is not None:
                        self._left[id_] = UNLISTED
                        if unit.attempt == 1:
                            self._due.popleft()
                        self._lock.notify_all()
                        return id_
                    pause = doubled_seconds(tries, FIRST_POLL_SECONDS, FRESH_SECONDS)
                    tries += 1
                self._lock.wait(pause)
        return None

    def _sent(self, job: Submission) -> str | None:
        try:
            id_ = self._jobs.submit(job)
        except Unavailable as error:
            if not self._accepted:
                raise
            if error.reason != self._away:
                self._notify(f"{error.reason}; trying again")
            self._away = error.reason
            return None
        self._accepted, self._away = True, ""
        return id_

    def _is_over(self, id_: str) -> bool:
        """Whether a job has ended, is no longer known or was asked to end. Jobs that still wait are
        cancelled once no further item may begin."""
        with self._lock:
            if not self._ending:
                self._poll()
            waiting = [one for one, job in self._left.items() if job and job.state in WAITS]
            ends = self._left if self._ending else waiting if self._stopped else ()
            self._cancel(ends)
            job = self._left[id_]
            return job is None or job.state.is_settled or id_ in self._cancelled

    def _cancel(self, ids: Collection[str]) -> None:
        with self._lock:
            if new := [one for one in ids if one not in self._cancelled]:
                self._cancelled.update(new)
                self._jobs.cancel(new, self._notify)

    def _poll(self) -> None:
        stopped = self._plan.stopped is not None
        if time.monotonic() < self._poll_at and stopped == self._stopped:
            return
        pause = doubled_seconds(self._polls, FIRST_POLL_SECONDS, FRESH_SECONDS)
        found, self._stopped = self._jobs.listed(self._left), stopped
        self._polls, self._poll_at = self._polls + 1, time.monotonic() + pause
        if found is not None:
            known = {job.id: job for job in found}
            self._left = {one: known.get(one) for one in self._left}

    def _output(self, unit: MapUnit, id_: str) -> CallOutput:
        """Returns what a job printed; empty, with a notice, if its output cannot be read."""
        for left in reversed(range(MOST_LOG_TRIES)):
            file, start = new_file(), 0
            try:
                with self._lock:
                    while (part := self._jobs.desk.log(id_, start, LOG_BYTES)).text:
                        file.write(part.text.encode())
                        start = part.end
            except Gone:
                pass  # it printed nothing
            except AndonError as error:
                if left:
                    file.close()
                    time.sleep(FIRST_POLL_SECONDS)
                    continue
                self._notify(f"the output of item {unit.items[0].shown} is lost: {error.reason}")
            break
        file.flush()
        return CallOutput.of(file)


def _seconds(job: ClusterJob, seconds: float) -> float:
    """Returns how long a job ran; if its cluster does not say, how long the call took."""
    if job.started is None or job.ended is None:
        return seconds
    return max(0.0, job.ended - job.started)
