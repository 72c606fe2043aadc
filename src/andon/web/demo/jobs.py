"""The demo's jobs as the board shows them, and what a visitor did to them."""

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from andon.drivers.sim.rules.demo import ME, Demo, DemoOutcome, DemoWork
from andon.errors import Conflict
from andon.jobs.rules.naming import no_job
from andon.jobs.rules.views import JobListing
from andon.leases.rules.queue import in_order
from andon.model.job.desk import JobAct, JobName, JobOutcome, LogPart
from andon.model.job.facts import WAITS, JobState, JobView
from andon.model.job.progress import WorkProgress
from andon.node.exact_desk import ExactDesk
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.node.watched.users import SharedUsers, UserNode
from andon.web.demo.book import lease_id, tickets

STEP_SECONDS = 9.0
RECORDED_SECONDS = 16 * 3600.0  # records of earlier runs are no longer there
MOST_LINES = 200
OUT_OF_MEMORY = "out of GPU memory: 2.50 GiB were requested, 1.12 GiB were free"
_ENDS = {
    DemoOutcome.SUCCEEDED: (JobState.SUCCEEDED, 0, None),
    DemoOutcome.FAILED: (JobState.FAILED, 1, "exit code 1"),
    DemoOutcome.OUT_OF_MEMORY: (JobState.FAILED, 1, OUT_OF_MEMORY),
    DemoOutcome.CANCELLED: (JobState.CANCELLED, None, "cancelled by its user"),
}
_DONE = {
    "cancel": "cancelled",
    "retry": "waits again",
    "requeue": "is stopped and waits again",
    "hold": "is held",
    "resume": "waits again",
}


class DemoJobs(ExactDesk):
    """The jobs of everyone, or of one user; cancelled, retried and moved ones stay so until the
    demo ends, and what the GPUs do does not change with them."""

    def __init__(self, demo: Demo, user: str | None = None) -> None:
        self._demo, self._of, self.user = demo, user, user or ME
        self._acts: dict[int, tuple[str, float]] = {}

    def listing(self, everyone: bool = False) -> JobListing:
        now = time.time()
        works = [work for work in self._demo.works if work.is_job and work.submitted <= now]
        views = self._placed([self._view(work, now) for work in works])
        return JobListing.of(view for view in views if self._of in (None, view.user))

    def view(self, job: JobName) -> JobView:
        for view in self.listing().views:
            if job in (view.number, view.label):
                return view
        raise no_job(job)

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        view = self.view(job)
        text = "" if view.started is None else output_of(view, time.time())
        begin = min(start or 0, len(text))
        return LogPart(begin, len(text), text[begin:], view.state.is_settled, 1 if text else None)

    def acted(self, act: JobAct, job: JobName) -> list[JobOutcome]:
        view = self.view(job)
        possible = {
            "cancel": not view.state.is_settled,
            "retry": view.state.is_settled,
            "requeue": view.state is JobState.RUNNING,
        }.get(act, view.state in WAITS)
        if not possible:
            raise Conflict(f"job {view.number} is {view.state.text}", hint="see its page")
        self._acts[view.number] = act, time.time()
        return [JobOutcome(view.label, _DONE.get(act, "moved"))]

    def _view(self, work: DemoWork, now: float) -> JobView:
        view = view_of(self._demo, work, now)
        act, at = self._acts.get(work.number, ("", 0.0))
        if act == "cancel":
            seconds = None if view.started is None else at - view.started
            return replace(view, state=JobState.CANCELLED, ended=at, seconds=seconds,
                           reason="cancelled on the board", progress=None)  # fmt: skip
        if act == "hold":
            return replace(view, state=JobState.HELD, reason="held")
        if act in ("retry", "requeue"):
            return replace(view, state=JobState.WAITING, started=None, ended=None, seconds=None,
                           reason="just queued", progress=None, devices=())  # fmt: skip
        return view

    def _placed(self, views: Sequence[JobView]) -> list[JobView]:
        """Returns the jobs with the place of each in the queue, as the book has it."""
        line = in_order(tickets(self._demo, self._in_line(views)), time.time())
        places = {ticket.id: place for place, ticket in enumerate(line, 1)}
        return [replace(view, position=places.get(f"t{view.number}")) for view in views]

    def _in_line(self, views: Sequence[JobView]) -> list[DemoWork]:
        """Returns the works that wait for GPUs, in the order in which they came or were moved."""

        def key(view: JobView) -> tuple[float, float, int]:
            act, at = self._acts.get(view.number, ("", 0.0))
            order = {"first": -1.0, "last": 1.0}.get(act, 0.0)
            return order, order * at or view.submitted_at, view.number

        works = {work.number: work for work in self._demo.works}
        waiting = (one for one in views if one.state is JobState.WAITING and not one.after)
        return [works[view.number] for view in sorted(waiting, key=key)]

    def queue(self) -> list[DemoWork]:
        return self._in_line(self.listing().views)


class DemoUsers(SharedUsers):
    """The people of the demo, as users whose part the server may show. None has an account, and
    everyone's jobs are the server's own."""

    def __init__(self, demo: Demo, find_runs: Callable[[], FoundRuns]) -> None:
        """`find_runs` returns the runs of everyone."""
        self._nodes = {
            name: UserNode(name, DemoJobs(demo, name), _runs_of(name, find_runs))
            for name in {work.user for work in demo.works} - {ME}
        }

    def named(self, user: str) -> UserNode | None:
        return self._nodes.get(user)


def _runs_of(user: str, find_runs: Callable[[], FoundRuns]) -> ServedRuns:
    return ServedRuns(lambda: find_runs().of(user), f"The runs of {user}")


def view_of(demo: Demo, work: DemoWork, now: float) -> JobView:
    """Returns a job as it is at a time."""
    arrays = [one for one in demo.works if work.array and one.array == work.array]
    index = arrays.index(work) if arrays else None
    label = str(work.number) if index is None else f"{arrays[0].number}_{index}"
    view = JobView(
        number=work.number, label=label, name=work.name, state=JobState.WAITING,
        command=work.command, folder=f"/home/{work.user}/work", user=work.user,
        submitted_at=work.submitted, gpus=str(len(work.gpus)), simulated=True,
        array=arrays[0].number if arrays else None, array_index=index, group=work.group,
        params={name: str(value) for name, value in work.params.items()},
    )  # fmt: skip
    if now < work.began and work.begins_later:
        return replace(view, state=JobState.LATER, begin_at=work.began, reason="until its --begin")
    if now < work.began:
        after = tuple(w.number for w in demo.running(now) if work.why.endswith(w.name))[:1]
        return replace(view, reason=work.why or "just queued", after=after,
                       expected_start=work.began, expected_from=3)  # fmt: skip
    view = replace(
        view, started=work.began, attempts=1, run=run_id(work) if is_recorded(demo, work) else None,
        devices=tuple(str(gpu) for gpu in work.gpus),
        device_uuids=tuple(demo.devices[gpu].uuid for gpu in work.gpus),
    )  # fmt: skip
    if now < work.ended:
        return replace(view, state=JobState.RUNNING, lease=lease_id(work), pid=demo.pid(work),
                       progress=progress_of(work, now))  # fmt: skip
    state, code, reason = _ENDS[work.outcome]
    return replace(
        view, state=state, ended=work.ended, seconds=work.ended - work.began, exit_code=code,
        reason=reason, error=reason,
    )  # fmt: skip


def progress_of(work: DemoWork, now: float) -> WorkProgress:
    total = max(1, int((work.ended - work.began) / STEP_SECONDS))
    step = max(0, min(total, int((now - work.began) / STEP_SECONDS)))
    return WorkProgress(step, total, rate=1 / STEP_SECONDS, expected_end=work.ended)


def values_of(work: DemoWork, now: float) -> Mapping[str, float]:
    """Returns what a training logs: its loss falls, faster with a better learning rate."""
    share = min(1.0, (now - work.began) / max(1.0, work.ended - work.began))
    rate = float(work.params.get("lr", 5e-4))
    skill = 1.0 / (1.0 + abs(rate - 4e-4) * 900) + 0.003 * (work.number % 7)
    loss = 3.2 * (1 - share) ** (1 + 2 * skill) + 1.9 - 0.55 * skill
    return {"loss": round(loss, 4), "accuracy": round(0.31 + 0.42 * skill * share**0.5, 4)}


def output_of(view: JobView, now: float) -> str:
    """Returns the last lines that a job has printed."""
    last = int((min(now, view.ended or now) - (view.started or now)) / STEP_SECONDS)
    first = max(0, last - MOST_LINES)
    lines = [f"step {n}  loss {2.0 + 3.0 / (1 + n / 90):.4f}" for n in range(first, last + 1)]
    if view.error:
        lines.append(f"Error: {view.error}")
    return "\n".join([f"$ {view.command}", *lines]) + "\n"


def is_recorded(demo: Demo, work: DemoWork) -> bool:
    return work.is_job and work.began > demo.origin - RECORDED_SECONDS


def run_id(work: DemoWork) -> str:
    return f"lab{work.number:05}"
