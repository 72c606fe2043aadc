"""The job desk of this machine for its own user on another one, who asks over SSH.

What another machine sends is checked as a job of this machine: its folder, its command and its
devices are looked for here, its environment is that of a login here.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from andon.cli.commands.jobs.desks import queue_desk, refuse_unstartable
from andon.cli.commands.share.container_options import contained
from andon.cli.sources import node_of, settings_of
from andon.cli.terminal import Choices, guarded
from andon.errors import Gone, Invalid
from andon.host.files import lock, make_private
from andon.host.state.user_folder import state_folder
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.expected import BusyUntil, expected_ends, expected_starts, learned
from andon.jobs.submitting import PREFIXES, local_spec
from andon.leases.rules.offer import Offer
from andon.model import wire
from andon.model.codec import Wrong, read
from andon.model.execution import ContainerOptions
from andon.model.job.cluster import ClusterJob, ClusterNode, GpuHolder, HostOffer
from andon.model.job.desk import JobAct, Submission
from andon.model.job.facts import JobFacts, JobView
from andon.model.job.spec import MOST_JOBS, JobSpec
from andon.model.verdict import VerdictKind
from andon.work.preparing import CannotStart, find

COPIES = "copies"
LOCK = "elsewhere.lock"
OF_THIS_MACHINE = (
    "submitted_at", "user", "umask", "environment", "shown", "masks", "scenario", "book", "boot",
    "submitted_boot_seconds",
)  # fmt: skip
"""Fields of a job that are of the machine it runs on."""
_ID = re.compile(r"[1-9][0-9]{0,7}(_[0-9]{1,7})?")
_COPY = re.compile(r"[^\w.-]")


def answer_call(call: str, arguments: Sequence[Any]) -> int:
    """Prints the answer to a call; returns the exit code."""

    def answered() -> int:
        if (known := CALLS.get(call)) is None:
            raise Invalid(f"the desk has no {call[:40]}")
        print(wire.struct_text(known(*arguments)))
        return 0

    return guarded(answered)


def _offer(given: object) -> HostOffer:
    """Returns how soon a job would start here; raises what keeps it from ever starting."""
    wanted = _local(given)
    job = wanted.job
    choices = Choices(simulate=job.simulate)
    desk = queue_desk(choices, wakes=False)
    desk.submit([wanted], dry=True)
    found = node_of(choices).leases.offer(job.request)
    queue = desk.fresh()
    states = queue.statuses
    waits = queue.in_order(n for n, one in states.items() if one.is_ready)
    suitable = [row for row in found.rows if row.verdict.kind is not VerdictKind.WITHHELD]
    chosen = () if waits else tuple(row.verdict.label for row in found.rows if row.chosen)
    return HostOffer(
        len(suitable),
        sum(row.is_free for row in suitable),
        chosen,
        sum(queue.jobs[number].spec.request.least for number in waits),
        0.0 if chosen else _starts_in(job, found, queue, waits),
    )


def _starts_in(job: JobSpec, found: Offer, queue: Queue, waits: Sequence[int]) -> float | None:
    now, known = time.time(), learned(queue.jobs.values())
    ends = {
        row.verdict.uuid: BusyUntil(now if row.is_free else row.verdict.until or inf)
        for row in found.rows
        if row.verdict.kind is not VerdictKind.WITHHELD
    }
    ends |= expected_ends(queue.jobs, queue.statuses, known, now)
    last = JobFacts(replace(job, number=MOST_JOBS))
    in_order = [*(queue.jobs[number] for number in waits), last]
    start = expected_starts(in_order, list(ends.values()), known).get(MOST_JOBS)
    return None if start is None else max(1.0, start.at - now)


def _submit(given: Sequence[object]) -> tuple[str, ...]:
    """Queues jobs, all or none, but those whose label one has already. It is not interrupted when
    the connection is cut: then they are found by their labels."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wanted = [_local(one) for one in given]
    desk = queue_desk(Choices(simulate=wanted[0].job.simulate))
    with _one_at_a_time():
        jobs = desk.fresh().jobs.values()
        known = {one.spec.submission: one.spec.label.partition("_")[0] for one in jobs}
        accepted = desk.submit([one for one in wanted if one.label not in known])
    known |= {one.submission.label: one.label for one in accepted}
    return tuple(known[one.label] for one in wanted)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keeps two calls with one label, of which one lost its connection, from both queueing it."""
    with (open_jobs_folder().path / LOCK).open("a") as file:
        lock(file.fileno(), wait=True)
        yield


def _local(given: object) -> Submission:
    """Returns a submission as if it had been made here; raises what is missing here."""
    try:
        wanted = read(Submission, given)
    except Wrong as exc:
        raise Invalid(f"this job is not as expected: {exc}", "run the same andon there") from exc
    job = wanted.job
    refuse_unstartable(Choices(simulate=job.simulate), [job.simulate])
    comes = bool(wanted.options)  # the folder is copied before the job is submitted
    if not comes and not Path(job.folder).is_dir():
        raise Gone(f"there is no folder {job.folder}", hint="--sync copies it there")
    os.chdir(Path.home() if comes else job.folder)
    variables = _environment(job.environment)
    before, os.environ["PATH"] = os.environ.get("PATH", ""), variables.get("PATH", os.defpath)
    try:
        if job.container:
            contained(read(ContainerOptions, job.container), job.argv)
        elif not (comes and os.sep in job.argv[0]):
            find(job.argv)
    except CannotStart as exc:
        raise Gone(exc.reason, hint=exc.hint or "install it there, or name its path") from exc
    finally:
        os.environ["PATH"] = before  # for the next job of this call
    base = local_spec(job.argv, job.request, environment=variables, git=False)
    fields = {name: getattr(base, name) for name in OF_THIS_MACHINE}
    return replace(wanted, job=replace(job, number=0, submission=wanted.label, **fields))


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a login here and those that the job sets. A virtual environment that
    is in the same place here is used."""
    variables = {**os.environ, **given}
    for name in PREFIXES:
        if Path(folder := given.get(name, ""), "bin").is_dir() and folder:
            variables["PATH"] = f"{folder}/bin:{variables.get('PATH', os.defpath)}"
        elif folder:
            del variables[name]
    return variables


# Reading.


def _jobs(since: float) -> list[ClusterJob]:
    queue = queue_desk(Choices()).fresh()
    ended = {number: _ended(facts) for number, facts in queue.jobs.items()}
    late = [
        number
        for number, one in queue.statuses.items()
        if not one.state.is_settled or (at := ended[number]) is None or at > since
    ]
    return [
        _cluster_job(view, queue.jobs[view.number].spec, ended[view.number])
        for view in queue.views(late)
    ]


def _ended(facts: JobFacts) -> float | None:
    """Returns when a settled job ended, whether it had begun or not."""
    end = None if facts.last is None else facts.last.end
    notes = [one.at for one in (facts.cancelled, facts.expired) if one is not None]
    return end.ended if end is not None else max(notes, default=None)


def _cluster_job(view: JobView, spec: JobSpec, ended: float | None) -> ClusterJob:
    settled = view.state.is_settled
    return ClusterJob(
        id=view.label,
        name=view.name,
        state=view.state,
        user=view.user,
        submitted_at=view.submitted_at,
        gpus=spec.request.least,
        where=f"GPU {', '.join(view.devices)}" if view.devices else None,
        command=view.command,
        reason=view.reason,
        label=spec.submission,
        array=None if view.array is None else str(view.array),
        array_index=view.array_index,
        started=view.started,
        ended=ended if settled else None,
        exit_code=view.exit_code,
        signal=view.signal,
        expected_start=view.expected_start,
        for_seconds=view.for_seconds,
        run=view.run,
        has_log=view.attempts > 0,
        advice="; ".join(view.waiting_details),
    )


def _node() -> ClusterNode:
    """Returns the GPUs of this machine, and who has them."""
    simulate = settings_of(Choices()).simulate or None
    snapshot, book, _ = node_of(Choices(simulate=simulate)).leases.listing()
    kinds = [one.kind for one in book.devices]
    samples = [one.sample for one in snapshot.devices if one.sample is not None]
    loads = [one.utilization_percent for one in samples if one.utilization_percent is not None]
    models = {one.device.name for one in snapshot.devices}
    holders = [GpuHolder(row.holder, len(row.devices), row.since, row.until) for row in book.leases]
    return ClusterNode(
        name=snapshot.node,
        state="ready",
        usable=True,
        gpus=len(kinds),
        allocated=kinds.count(VerdictKind.HELD),
        free=kinds.count(VerdictKind.FREE),
        model=models.pop() if len(models) == 1 else None,
        utilization_percent=sum(loads) / len(loads) if loads else None,
        temperature_celsius=max(
            (one.temperature_celsius for one in samples if one.temperature_celsius is not None),
            default=None,
        ),
        holders=tuple(holders),
    )


# Changing.


def _cancel(ids: Sequence[str]) -> tuple[str, ...]:
    """Asks jobs and arrays to end; `Gone` names the first unknown one, after the others."""
    desk = _desk()
    queue, active = desk.fresh(), dict[str, bool]()
    for number, facts in queue.jobs.items():
        goes_on = not queue.statuses[number].state.is_settled
        for name in (facts.spec.label, facts.spec.label.partition("_")[0]):
            active[name] = active.get(name, False) or goes_on
    outcomes = desk.act(JobAct.CANCEL, [one for one in ids if active.get(one)])
    errors = [one.error for one in outcomes if one.error is not None]
    unknown = [Gone(f"there is no job {one[:60]}") for one in ids if one not in active]
    for error in (*errors, *unknown):
        raise error
    return tuple(one.label for one in outcomes)


def _place(name: str) -> dict[str, str]:
    """Makes a folder for a copy of a working folder."""
    path = state_folder() / COPIES / _COPY.sub("-", name)[:200]
    make_private(path)
    return {"path": str(path), "name": path.name}


def _desk() -> QueueDesk:
    return queue_desk(Choices())


def _exact(job: str) -> str:
    if _ID.fullmatch(job) is None:
        raise Gone(f"there is no job {job[:60]}")
    return job


CALLS: Mapping[str, Callable[..., object]] = {
    "offers": lambda given: tuple(map(_offer, given)),
    "submit": _submit,
    "jobs": _jobs,
    "log": lambda job, *part: _desk().log(_exact(job), *part),
    "node": _node,
    "cancel": _cancel,
    "place": _place,
}
"""What may be asked, with arguments of JSON."""
