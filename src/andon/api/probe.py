"""`andon.probe`: finds the largest size that fits by calling a function with different sizes."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction
from typing import Any

from andon.api import watch as library
from andon.api.lease import lease
from andon.errors import AndonError, Conflict, Denied, Invalid, TimedOut, Unavailable
from andon.leases.placement import Placement
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.leases.rules.requests import Names, Size
from andon.model.probe import ProbeResult, Trial, TrialState
from andon.runs.rules.sampled import run_devices
from andon.units import seconds_of
from andon.work.functions.caller import CallOutcome, FunctionWorker
from andon.work.functions.carrying import carry_function
from andon.work.probe.prober import Prober
from andon.work.probe.shelf import store_probe
from andon.work.rules.probe import ProbeRequest, StopReason, TrialEnd, begin_search, check_margin

NO_NUMBER = "the function returned no number"


def probe(
    function: Callable[[int], Any],
    low: int = 1,
    high: int = 512,
    *,
    margin: float = 10.0,
    timeout: float | str = 300.0,
    gpus: int = 1,
    memory: Size = None,
    devices: Names = (),
    wait: float | str = 300.0,
    name: str | None = None,
    simulated: bool = False,
    on_trial: Callable[[Trial], None] | None = None,
) -> ProbeResult:
    """The largest size for which `function(size)` does not run out of memory.

    Each call happens in a process of its own, started and never forked, that sees only the devices
    of one lease; inside `andon run` they are those of the run. A number that the function returns
    is kept as its throughput. An exception that is not about GPU memory is raised here; `TimedOut`
    is raised for a call that takes longer than `timeout` seconds, and `Conflict` where not even
    `low` fits. Functions of notebooks and of `__main__` need `pip install 'andon[notebooks]'`.
    """
    begin_search(low, high)
    check_margin(margin)
    if iscoroutinefunction(function):
        raise Invalid(
            f"{_title(function)} is asynchronous", hint="pass a function that runs it: asyncio.run"
        )
    carry_function(function)  # what cannot be carried is reported before anything is leased
    title = _title(function)
    limit = seconds_of(timeout)
    with _place(gpus, memory, devices, wait, simulated) as place:
        trials = _FunctionTrials(function, place.environment, limit)
        snapshot = place.snapshot or library.shared().once(with_host=False)
        found = run_devices(snapshot, place.uuids)
        name = name or title.rpartition(".")[2]
        request = ProbeRequest(name, f"{title}({{n}})", low, high, margin)
        plan = request.plan(found, snapshot.node, snapshot.simulated)
        report = on_trial or (lambda trial: None)
        outcome = Prober(plan, trials, library.shared(), found, report, NO_NUMBER).run()
    if outcome.broken is not None:
        raise trials.error(outcome.broken)
    if outcome.probe.largest is None:
        first = outcome.probe.trials[0]
        raise Conflict(f"even the smallest size, {first.size}, does not fit: {first.message}")
    with suppress(Denied, Unavailable):  # the caller has the result; the list is an extra
        store_probe(outcome.probe)
    return outcome.probe


class _FunctionTrials:
    """Calls the function with one size after the other, each in a new process."""

    def __init__(
        self, function: Callable[[int], Any], environment: Mapping[str, str], seconds: float
    ) -> None:
        self._function, self._environment, self._seconds = function, environment, seconds
        self._last: CallOutcome | None = None

    def __call__(self, size: int) -> TrialEnd:
        grace_seconds = library.shared().settings.work_grace_seconds
        with FunctionWorker(self._function, self._environment, grace_seconds) as worker:
            found = self._last = worker.call(size, self._seconds)
            worker.close()
            output = worker.output()
        number = found.result if type(found.result) in (int, float) else None
        return TrialEnd(
            code=_code(found),
            signal=found.signal,
            seconds=round(found.seconds, 3),
            tail=f"{output}\n{found.traceback}",
            stopped=StopReason.TIMEOUT if found.timed_out else None,
            throughput=None if number is None else float(number),
        )

    def error(self, trial: Trial) -> BaseException:
        """Why the search ended early, as an exception."""
        if trial.state is TrialState.HUNG:
            return TimedOut(f"the trial with {trial.size} {trial.message} and was ended")
        if self._last is not None and self._last.exception is not None:
            return self._last.raised()
        why = self._last.error if self._last is not None else trial.message
        return AndonError(f"the trial with {trial.size} failed: {why}")


def _code(outcome: CallOutcome) -> int:
    """Returns the exit code as a shell reports it; an exception is 1."""
    if outcome.ok:
        return 0
    if outcome.signal is not None:
        return 128 + outcome.signal
    return outcome.code or 1


@contextmanager
def _place(
    gpus: int, memory: Size, devices: Names, wait: float | str, simulated: bool
) -> Iterator[Placement]:
    """Yields the devices of the run around this process, else of a lease for the probe."""
    if os.environ.get(LEASE_VARIABLE):
        snapshot = library.shared().once(with_host=False)
        seen = tuple(one.device for one in snapshot.devices if one.visible)
        if not seen:
            raise Unavailable("this process sees no device", hint="check CUDA_VISIBLE_DEVICES")
        yield Placement(seen, {}, snapshot)
        return
    request = lease(gpus, memory, devices=devices, timeout=wait, seconds=None, simulated=simulated)
    with request as held:
        yield held.placement


def _title(function: Callable[..., Any]) -> str:
    """Returns `train.step`; the part after the last dot names the result."""
    module = getattr(function, "__module__", None) or "__main__"
    qualified_name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}.{qualified_name}"
