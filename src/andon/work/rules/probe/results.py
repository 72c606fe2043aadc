"""What a probe found, from its trials."""

from collections.abc import Sequence

from msgspec import Struct

from andon.model.probe import ProbeResult, Trial, TrialState
from andon.work.rules.probe.memory_line import memory_line
from andon.work.rules.probe.search import Search, begin_search, recommended, searched


class ProbePlan(Struct, frozen=True):
    """What is probed, where, and between which sizes."""

    name: str
    command: str
    model: str
    devices: int
    node: str
    low: int
    high: int
    margin_percent: float = 10.0
    memory_total_bytes: int | None = None  # of the smallest device
    simulated: bool = False

    def search(self, trials: Sequence[Trial]) -> Search:
        return searched(begin_search(self.low, self.high), trials)


def probe_of(plan: ProbePlan, trials: Sequence[Trial], at: float) -> ProbeResult:
    """The result so far; `complete` says whether the search came to its end."""
    search = plan.search(trials)
    line, why_none = memory_line(trials, plan.memory_total_bytes)
    largest = search.fits
    return ProbeResult(
        name=plan.name,
        command=plan.command,
        model=plan.model,
        devices=plan.devices,
        at=at,
        node=plan.node,
        low=plan.low,
        high=plan.high,
        margin_percent=plan.margin_percent,
        trials=tuple(trials),
        largest=largest,
        too_large=search.fails,
        recommended=None
        if largest is None
        else recommended(largest, plan.low, plan.margin_percent),
        line=line,
        line_reason=why_none,
        memory_total_bytes=plan.memory_total_bytes,
        simulated=plan.simulated,
        complete=search.complete,
    )


def limited_by(probe: ProbeResult) -> str | None:
    """What the smallest size that does not fit ran out of; None if every size fits."""
    for trial in probe.trials:
        if trial.size == probe.too_large:
            host = trial.state is TrialState.HOST_OUT_OF_MEMORY
            return "host memory" if host else "GPU memory"
    return None
