"""`andon.submit`: calls a function in a job, here or on a cluster."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from andon.api import watch as library
from andon.app.desks import desk_named
from andon.errors import AndonError, Gone, Invalid, TimedOut, Unavailable
from andon.failures.rules.backoff import doubled_seconds
from andon.host.interpreter import module_environment, process_command
from andon.jobs.desk import JobDesk
from andon.jobs.file import begin_moment
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.file_keys import read_options
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.starting import start_dispatcher
from andon.jobs.submitting import local_spec, new_submission
from andon.leases.availability import implicit_simulation
from andon.leases.rules.requests import Count, Names, RequestOptions, Size
from andon.model.job.desk import JobAct
from andon.model.job.facts import JobState, JobView
from andon.settings.resolution import Settings
from andon.units import seconds_of
from andon.work.functions.call import delete_call, new_call_folder, read_answer, write_call
from andon.work.functions.caller import CallOutcome

POLL_SECONDS = 0.1
ANSWER_SECONDS = 5.0
"""How long an answer may take from the node to this machine once its job has ended by itself."""


class SubmittedJob:
    """A job that calls a function."""

    def __init__(self, label: str, folder: Path, desk: JobDesk) -> None:
        self.label = label  # `12`, or `slurm:4711` on a cluster
        self._folder, self._desk = folder, desk
        self._outcome: CallOutcome | None = None

    def __repr__(self) -> str:
        return f"<andon job {self.label}>"

    @property
    def state(self) -> JobState:
        """Where the job stands: waiting, running, succeeded, failed, …"""
        return self._view().state

    def result(self, timeout: float | str | None = None) -> Any:
        """Waits for the job and returns what the function returned; raises what it raised, or
        AndonError if the job ended without an answer, or TimedOut."""
        until = None if timeout is None else time.monotonic() + seconds_of(timeout)
        polls, ask_at, ended = 0, time.monotonic(), None
        while self._outcome is None:
            self._outcome = read_answer(self._folder)
            now = time.monotonic()
            if self._outcome is not None:
                delete_call(self._folder)
            elif ended is not None and now > ended[0]:
                delete_call(self._folder)
                hint = f"its output: andon logs {self.label}"
                raise AndonError(f"job {self.label} {ended[1]}", hint)
            elif until is not None and now > until:
                raise TimedOut(f"job {self.label} has not ended in time")
            elif ended is None and now >= ask_at:
                ended = self._ended(now)
                ask_at = now + doubled_seconds(polls, POLL_SECONDS, FRESH_SECONDS)
                polls += 1
            else:
                time.sleep(POLL_SECONDS)
        return self._outcome.value()

    def cancel(self) -> None:
        """Asks the job to end."""
        (outcome,) = self._desk.act(JobAct.CANCEL, [self.label])
        if outcome.error is not None:
            raise outcome.error

    def _view(self) -> JobView:
        found, errors = self._desk.find([self.label])
        for error in errors:
            raise error
        return found[0]

    def _ended(self, now: float) -> tuple[float, str] | None:
        """Returns until when its answer may come, and how the job ended; None while it has not, or
        its cluster does not answer."""
        try:
            view = self._view()
        except (Gone, Invalid):
            raise
        except AndonError:
            return None
        if not view.state.is_settled:
            return None
        state, why = view.state.text, view.error
        patience = 0.0 if view.state is JobState.CANCELLED else ANSWER_SECONDS
        return now + patience, f"{state}: {why}" if why else f"{state}, and left no answer"


def submit(
    function: Callable[..., Any],
    *args: Any,
    on: str | None = None,
    gpus: Count = 1,
    memory: Size = None,
    model: Names = (),
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    seconds: float | str | None = None,
    options: Sequence[str] = (),
    **job: Any,
) -> SubmittedJob:
    """Calls `function(*args, **kwargs)` in a job: `andon.submit(train, 0.1, on="slurm", gpus=1)`.

    `on` is a cluster, or `here` for the queue of this machine; without it the setting `jobs.on`
    decides. The job sees its GPUs alone and is recorded like any other; `job.result()` waits for it
    and returns what the function returned, or raises what it raised. `seconds` limits how long it
    runs, `options` are in the cluster's own words; others are the keys of a job file: `retries=2`,
    `after=[first.label]`, `begin="22:30"`, `tags=["paper"]`. Functions of notebooks and of
    `__main__` need `pip install 'andon[notebooks]'`.
    """
    settings = library.shared().settings
    desk = desk_named(on or None, lambda: settings, partial(_queue_desk, settings))
    more = read_options(job)
    waits = {key: more.pop(key) for key in ("after", "after_any") if key in more}
    if "begin" in more:
        more["begin_at"] = begin_moment(more.pop("begin"))
    folder = new_call_folder()
    write_call(folder, function, args, kwargs or {})
    try:
        spec = local_spec(
            process_command("call", str(folder)),
            RequestOptions(gpus, memory, model=model).request(),
            name=name or str(getattr(function, "__name__", "call")),
            environment=module_environment(),
            **{"for_seconds": None if seconds is None else seconds_of(seconds), **more},
        )
        submission = new_submission(spec, options=tuple(options), **waits)
        refuse(desk, [submission])
        label = desk.submit([submission])[0].label
    except BaseException:
        delete_call(folder)
        raise
    return SubmittedJob(label, folder, desk)


def _queue_desk(settings: Settings) -> QueueDesk:
    if settings.simulate:
        raise Unavailable(implicit_simulation().reason, hint="unset ANDON_SIMULATE")
    return QueueDesk(wake=start_dispatcher)
