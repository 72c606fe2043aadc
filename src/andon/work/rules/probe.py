"""Decisions of a probe: which size is tried next, what a trial shows, and what was found."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import asdict, replace

from andon.errors import Conflict, Gone, Invalid
from andon.model.probe import MemoryLine, ProbeResult, Trial, TrialState
from andon.model.run.record import RunDevice, RunState
from andon.runs.rules.oom import MemoryBeforeEnd, complaint, verdict
from andon.units import human_seconds

# Which size is tried next: doubling up to the first failure, then bisecting to 1/16.

CLOSENESS = 16
"""The search ends where the smallest size that fails is at most 1/16 above the largest that
fits."""
LARGEST_SIZE = 10**12


class Search(Struct, frozen=True):
    """The state of a search. What fits is assumed to fit at every smaller size too."""

    low: int
    high: int
    fits: int | None = None  # the largest that did
    fails: int | None = None  # the smallest that did not

    @property
    def complete(self) -> bool:
        return self.next_size() is None

    def next_size(self) -> int | None:
        """Returns the next size; None when the search is over."""
        if self.fits is None:
            return None if self.fails is not None else self.low
        if self.fails is None:
            return None if self.fits >= self.high else min(2 * self.fits, self.high)
        gap = self.fails - self.fits
        if gap <= 1 or gap * CLOSENESS <= self.fits:
            return None
        return self.fits + gap // 2

    def after(self, size: int, fits: bool) -> "Search":
        """Returns the search with the result of a trial."""
        if fits:
            return replace(self, fits=max(self.fits or size, size))
        return replace(self, fails=min(self.fails or size, size))


def begin_search(low: int, high: int) -> Search:
    """Returns a search from `low` to `high`; Invalid if there is nothing between them."""
    if low < 1 or high > LARGEST_SIZE:
        wrong = low if low < 1 else high
        raise Invalid(f"{wrong} is not a size", hint=f"use 1 to {LARGEST_SIZE}")
    if low > high:
        raise Invalid(
            f"the smallest size ({low}) is above the largest ({high})", hint="swap --min and --max"
        )
    return Search(low, high)


def searched(search: Search, trials: Iterable[Trial]) -> Search:
    """Returns the search after these trials; inconclusive ones are ignored."""
    for trial in trials:
        if trial.state.decides:
            search = search.after(trial.size, trial.state is TrialState.FITS)
    return search


def recommended(largest: int, low: int, margin_percent: float) -> int:
    """Returns the largest size less a margin, but no less than the smallest that was tried."""
    return max(low, int(largest * (100.0 - margin_percent) / 100.0 + 1e-9))


def check_margin(percent: float) -> float:
    if not 0.0 <= percent < 100.0:
        raise Invalid(f"a margin of {percent:g} % makes no sense", hint="use 0 to 99")
    return percent


# What a trial says about its size, by the same judgement as the end of a run.


class StopReason(StrEnum):
    """Why a trial was stopped before it ended on its own."""

    READY = "ready"  # its output said that it is up
    HELD = "held"  # it ran for as long as it was asked to
    TIMEOUT = "timeout"
    LEASE = "lease"  # its devices are no longer ours


class TrialEnd(Struct, frozen=True):
    """How the command or the function of a trial ended."""

    code: int
    signal: int | None
    seconds: float
    tail: str  # the end of its output
    stopped: StopReason | None = None
    why: str = ""  # why the lease ended, as text
    interrupted: bool = False  # a person asked it to stop
    never_ready: bool = False  # it should have said that it is ready, and never did
    throughput: float | None = None


def judged(
    end: TrialEnd, memory: Sequence[MemoryBeforeEnd], host_kills: int
) -> tuple[TrialState, str]:
    """Returns the state of a trial, and the reason as a sentence."""
    if end.interrupted:
        return TrialState.STOPPED, "stopped on request"
    if end.stopped is not None:
        return _stopped(end, end.stopped)
    found = verdict(end.code, end.signal, end.tail, memory, host_kills)
    if found.end is RunState.SUCCEEDED and end.never_ready:
        return TrialState.FAILED, "ended before a line of its output matched --ready"
    state = {
        RunState.SUCCEEDED: TrialState.FITS,
        RunState.DEVICE_OUT_OF_MEMORY: TrialState.DEVICE_OUT_OF_MEMORY,
        RunState.HOST_OUT_OF_MEMORY: TrialState.HOST_OUT_OF_MEMORY,
    }.get(found.end, TrialState.FAILED)
    return state, found.message


def _stopped(end: TrialEnd, reason: StopReason) -> tuple[TrialState, str]:
    took = human_seconds(end.seconds)
    if reason is StopReason.LEASE:
        return TrialState.STOPPED, end.why
    if reason is StopReason.READY:
        return TrialState.FITS, f"ready after {took}"
    out_of_memory = complaint(end.tail)
    if out_of_memory is not None:  # one of several processes ran out, and the others wait for it
        message = f"out of GPU memory: reported by {out_of_memory[0]}, and it did not end by itself"
        return TrialState.DEVICE_OUT_OF_MEMORY, message
    if reason is StopReason.HELD:
        return TrialState.FITS, f"ran for {took}"
    return TrialState.HUNG, f"did not end within {took}"


# Memory over size as a straight line, from trials that are well below the card's memory.

BELOW = 0.8
"""Of the card's memory. Above it allocators begin to reuse and to give back, and the line bends."""
FEWEST_SIZES = 2


def memory_line(
    trials: Iterable[Trial], total_bytes: int | None
) -> tuple[MemoryLine | None, str | None]:
    """Returns the line of least squares, or why there is none."""
    if not total_bytes:
        return None, "the memory of the device is unknown"
    points = [
        (trial.size, trial.peak_memory_bytes)
        for trial in trials
        if trial.state is TrialState.FITS
        and trial.peak_memory_bytes is not None
        and trial.peak_memory_bytes < BELOW * total_bytes
    ]
    if len({size for size, _ in points}) < FEWEST_SIZES:
        return None, f"fewer than {FEWEST_SIZES} sizes were measured below {BELOW:.0%} of the card"
    middle = sum(size for size, _ in points) / len(points)
    mean = sum(used for _, used in points) / len(points)
    spread = sum((size - middle) ** 2 for size, _ in points)
    slope = sum((size - middle) * (used - mean) for size, used in points) / spread
    if slope <= 0:
        return None, "memory did not grow with the size"
    return MemoryLine(mean - slope * middle, slope, len(points)), None


# What a probe found, from its trials.


class ProbePlan(Struct, frozen=True):
    """What is probed, where, and between which sizes; a result repeats it."""

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


class ProbeRequest(Struct, frozen=True):
    """A requested probe: its name and command, range of sizes, margin below the largest."""

    name: str
    command: str
    low: int
    high: int
    margin_percent: float

    def plan(self, devices: Sequence[RunDevice], node: str, simulated: bool) -> ProbePlan:
        """Returns the plan on these devices."""
        totals = [one.memory_total_bytes for one in devices if one.memory_total_bytes]
        return ProbePlan(
            **asdict(self),
            model=" + ".join(dict.fromkeys(device.name for device in devices)),
            devices=len(devices),
            node=node,
            memory_total_bytes=min(totals, default=None),
            simulated=simulated,
        )


def probe_of(plan: ProbePlan, trials: Sequence[Trial], at: float) -> ProbeResult:
    """Returns the result so far; `complete`: whether the search came to its end."""
    search = plan.search(trials)
    line, why_none = memory_line(trials, plan.memory_total_bytes)
    largest = search.fits
    return ProbeResult(
        **asdict(plan),
        at=at,
        trials=tuple(trials),
        largest=largest,
        too_large=search.fails,
        recommended=None
        if largest is None
        else recommended(largest, plan.low, plan.margin_percent),
        line=line,
        line_reason=why_none,
        complete=search.complete,
    )


def limited_by(probe: ProbeResult) -> str | None:
    """Returns what the smallest size that does not fit ran out of; None if every size fits."""
    for trial in probe.trials:
        if trial.size == probe.too_large:
            host = trial.state is TrialState.HOST_OUT_OF_MEMORY
            return "host memory" if host else "GPU memory"
    return None


# A command with `{n}` in place of the size.

PLACE = "{n}"


def check_template(command: Sequence[str]) -> None:
    """Raises Invalid if the command has no `{n}`."""
    if not any(PLACE in word for word in command):
        raise Invalid(
            f"the command has no {PLACE}, so every trial would be the same",
            hint="write {n} in place of the size: andon probe -- python train.py --batch {n}",
        )
    if PLACE in command[0]:
        raise Invalid(f"{PLACE} cannot be part of the program's name")


def filled(command: Sequence[str], size: int) -> list[str]:
    """Returns the command of one trial."""
    return [word.replace(PLACE, str(size)) for word in command]


def check_pattern(option: str, text: str) -> re.Pattern[str]:
    """Returns a regular expression as typed; Invalid if it is none."""
    try:
        return re.compile(text)
    except re.error as exc:
        raise Invalid(
            f"{option} {text[:60]!r} is not a regular expression: {exc.msg}",
            hint=r"write ( ) [ ] . * + ? \ with a \ before them where they are meant literally",
        ) from exc


def number_of(found: re.Match[str]) -> float | None:
    """Returns the number in the first group, or in the whole match; None if it is not a number."""
    text = found[1] if found.re.groups else found[0]
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


# Which of the stored probes a name means.


def best(probes: Sequence[ProbeResult], name: str, model: str | None = None) -> ProbeResult:
    """Returns the newest of this name; raises Conflict if several models have one."""
    named = [one for one in probes if one.name == name]
    if not named:
        known = ", ".join(dict.fromkeys(one.name for one in probes)) or "none"
        raise Gone(f"no probe is named {name!r}", hint=f"stored: {known}")
    fitting = [one for one in named if model is None or model.lower() in one.model.lower()]
    kinds = sorted({("" if p.devices == 1 else f"{p.devices}x ") + p.model for p in fitting})
    if not fitting:
        models = ", ".join(sorted({one.model for one in named}))
        raise Gone(f"{name} was not probed on {model}", hint=f"it was probed on: {models}")
    if len(kinds) > 1:
        raise Conflict(
            f"{name} was probed on {len(kinds)} kinds of devices: {', '.join(kinds)}",
            hint="say which: --model NAME; or store them under different names with --name",
        )
    return fitting[0]
