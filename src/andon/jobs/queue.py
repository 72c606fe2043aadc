"""Jobs: the folder of this machine's queue, what is in it, and its dispatcher."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.host.state.user_folder import POLICY_FILE
from andon.jobs.folder import JobsFolder, open_jobs_folder, own_jobs_folder
from andon.jobs.starting import start_dispatcher
from andon.model.job.spec import JobSpec

if TYPE_CHECKING:  # `submit` must be quick
    from andon.jobs.rules.states import JobStatus
    from andon.leases.rules.eligibility import Labels
    from andon.model.device import Snapshot
    from andon.model.job.facts import JobView
    from andon.model.job.progress import WorkProgress


class Queue:
    """This user's jobs on this machine, as they are now."""

    def __init__(self, folder: JobsFolder | None = None) -> None:
        from andon.jobs.scan import Scanner

        self.folder = folder or own_jobs_folder()
        self._scanner = Scanner(self.folder)
        self.jobs = self._scanner.read()
        self.statuses: dict[int, JobStatus] = {}
        self.paused = False
        self._judge()

    def refresh(self) -> None:
        """Reads what has changed."""
        self.jobs = self._scanner.read()
        self._judge()

    def _judge(self) -> None:
        self.paused = self.folder.paused
        self.statuses = self.jobs.statuses(time.time(), self.paused)
        self._scanner.save()

    def in_order(self, numbers: Iterable[int]) -> list[int]:
        """Returns the numbers in the order in which the jobs are to start."""
        return sorted(numbers, key=self.jobs.order_keys().__getitem__)

    def views(self, only: Iterable[int] | None = None) -> "list[JobView]":
        """Returns the jobs as they are shown: all by number, or the given ones in their order."""
        if not self.jobs:
            return []
        from andon.jobs.rules.views import positions, views

        holdups = self.folder.holdups()
        places = positions(self.jobs.order_keys(), self.statuses, holdups)
        found = views(self.jobs, self.statuses, places, holdups, only)
        return [self._with_progress(view) for view in found]

    def _with_progress(self, view: "JobView") -> "JobView":
        """Adds to a running job the progress at the end of its output."""
        if view.pid is None:
            return view

        return replace(view, progress=self._progress(view.number, view.started))

    def _progress(self, number: int, started: float | None) -> "WorkProgress | None":
        last = self.jobs[number].last
        if last is None:
            return None
        from andon.jobs.outputs import output_progress

        return output_progress(self.folder.output(number, last.number), started)

    def progress_by_run(self) -> "dict[str, WorkProgress]":
        """The progress of running jobs, by the ids of their runs; jobs without any are left out."""
        from andon.model.job.facts import JobState

        found: dict[str, WorkProgress] = {}
        for number, status in self.statuses.items():
            last = self.jobs[number].last if status.state is JobState.RUNNING else None
            if last is None or last.claim.run is None:
                continue
            progress = self._progress(number, last.claim.at)
            if progress is not None:
                found[last.claim.run] = progress
        return found

    def view(self, number: int) -> "JobView":
        """Returns one job, with the variables that may be shown; raises Gone if there is none."""
        from andon.jobs.rules.views import shown_environment

        spec = self.folder.spec(number)
        (found,) = self.views([number])
        shown = shown_environment(self.jobs[number], spec.environment)
        return replace(found, environment=shown)

    @property
    def unread(self) -> dict[str, str]:
        """Returns the files that were skipped, and why."""
        return self._scanner.unread


def submit(specs: Iterable[JobSpec]) -> list[JobSpec]:
    """Queues new jobs (they get their numbers here), and makes sure that a dispatcher runs."""
    folder, wanted = open_jobs_folder(), list(specs)
    refuse_too_many(folder, len(wanted))
    made = folder.submit(wanted)
    start_dispatcher(folder)
    return made


def checked_specs(
    specs: Sequence[JobSpec], sample: "Callable[[], Snapshot]", labels: "Labels"
) -> list[JobSpec]:
    """Returns the specs ready to be queued; raises an error if this machine's devices can never
    meet one.

    Devices are read only for a request that not every machine can meet. If none can be read, jobs
    wait until they can.
    """
    requests = {spec.request for spec in specs if not spec.request.is_plain}
    if not requests:  # `submit` must be quick
        return list(specs)

    from andon.leases.rules.eligibility import settled

    snapshot = sample()
    if not snapshot.devices:
        return list(specs)
    if any((spec.simulate is not None) != snapshot.simulated for spec in specs):
        return list(specs)  # for other devices than these
    found = {request: settled(request, snapshot.devices, labels) for request in requests}
    return [replace(spec, request=found.get(spec.request, spec.request)) for spec in specs]


def same_as(spec: JobSpec) -> JobSpec | None:
    """Returns a job with the same name, command and folder that waits or runs."""
    from andon.jobs.rules.naming import is_same

    queue = Queue()
    for number, found in queue.statuses.items():
        if not found.state.is_settled and is_same(queue.jobs[number].spec, spec):
            return queue.jobs[number].spec
    return None


def refuse_too_many(folder: JobsFolder, more: int) -> None:
    """Raises Denied if root's policy does not allow this user so many more waiting jobs."""
    above = POLICY_FILE.parent
    if not os.access(POLICY_FILE, os.F_OK) and os.access(above, os.X_OK) == above.is_dir():
        return  # `submit` must be quick
    from andon.leases.policy_file import limits_for, read_policy
    from andon.model.job.facts import JobState

    limits = limits_for(read_policy(), os.getuid())
    if limits.max_queued is not None:
        statuses = Queue(folder).statuses.values()
        waits = (JobState.WAITING, JobState.HELD, JobState.LATER)
        waiting = sum(one.state in waits for one in statuses)
        limits.check_queued(waiting, more)


def wake(folder: JobsFolder | None = None) -> None:
    """Makes sure that a dispatcher runs and looks at the folder. Does nothing without jobs."""
    found = folder or own_jobs_folder()
    if Path(found.path).is_dir():
        found.ring()
        start_dispatcher(found)


def collect(queue: Queue, keep_days: float) -> int:
    """Deletes jobs that ended more than `keep_days` ago; returns how many."""
    from andon.jobs.rules.retention import too_old
    from andon.runs.rules.retention import DAY_SECONDS

    old = too_old(queue.jobs, queue.statuses, time.time(), keep_days * DAY_SECONDS)
    for number in old:
        queue.folder.remove(number)
    queue.folder.sweep(time.time() - DAY_SECONDS)
    from andon.jobs.clusters.notes import sweep_notes
    from andon.work.functions.call import sweep_calls

    for sweep in (sweep_notes, sweep_calls):
        sweep(time.time() - keep_days * DAY_SECONDS)
    return len(old)
