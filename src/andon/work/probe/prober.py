"""Performs a search: one trial after the other, until the search is over or one fails."""

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from andon.host.oom_kills import host_kills
from andon.model.probe import ProbeResult, Trial
from andon.model.run.record import RunDevice
from andon.runs.record import SampleSource
from andon.work.probe.trial_readings import MemoryReturn, TrialMeter
from andon.work.rules.probe import ProbePlan, TrialEnd, judged, probe_of

NO_METRIC = "no pattern was given to find it in the output (--metric)"
NO_MATCH = "no line of the output matched --metric with a number"


class ProbeOutcome(Struct, frozen=True):
    """What was found; `broken` is the trial that ended the search early, with its output."""

    probe: ProbeResult
    broken: Trial | None = None
    output: str = ""


class Prober:
    """One search on devices that are already ours."""

    def __init__(
        self,
        plan: ProbePlan,
        attempt: Callable[[int], TrialEnd],
        source: SampleSource,
        devices: Sequence[RunDevice],
        ended: Callable[[Trial], None] = lambda trial: None,
        why_no_throughput: str = NO_METRIC,
    ) -> None:
        """`ended` is called with each trial as it ends."""
        self._plan, self._attempt, self._source, self._devices = plan, attempt, source, devices
        self._ended, self._why_no_throughput = ended, why_no_throughput

    def run(self) -> ProbeOutcome:
        trials: list[Trial] = []
        back = MemoryReturn(self._source, self._devices, self._plan.simulated)
        while (size := self._plan.search(trials).next_size()) is not None:
            note = back.wait() if trials else None
            trial, end = self._try(size, note)
            trials.append(trial)
            self._ended(trial)
            if not trial.state.decides:
                return ProbeOutcome(self._result(trials), trial, end.tail)
        return ProbeOutcome(self._result(trials))

    def _result(self, trials: Sequence[Trial]) -> ProbeResult:
        return probe_of(self._plan, trials, time.time())

    def _try(self, size: int, note: str | None) -> tuple[Trial, TrialEnd]:
        kills = host_kills()
        meter = TrialMeter(self._source, self._devices)
        try:
            end = self._attempt(size)
        finally:
            read = meter.close()
        state, message = judged(end, read.memory, host_kills() - kills)
        missing = dict(read.missing)
        if end.throughput is None:
            missing["throughput"] = self._why_no_throughput
        trial = Trial(
            size=size,
            state=state,
            seconds=end.seconds,
            message=message,
            peak_memory_bytes=read.peak_memory_bytes,
            utilization_percent=read.utilization_percent,
            energy_joules=read.energy_joules,
            energy_source=read.energy_source,
            throughput=end.throughput,
            samples=read.samples,
            missing=missing,
            note=note,
        )
        return trial, end
