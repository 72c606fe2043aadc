"""What a trial says about its size, by the same judgement as the end of a run."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from andon.model.probe import TrialState
from andon.model.run.record import RunState
from andon.runs.rules.oom import MemoryBeforeEnd, complaint, verdict
from andon.units import human_seconds


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
    why: str = ""  # of a lease that ended, in words
    interrupted: bool = False  # a person asked it to stop
    never_ready: bool = False  # it should have said that it is ready, and never did
    throughput: float | None = None


def judged(
    end: TrialEnd, strains: Sequence[MemoryBeforeEnd], host_kills: int
) -> tuple[TrialState, str]:
    """Returns the state of a trial, and the reason as a sentence."""
    if end.interrupted:
        return TrialState.STOPPED, "stopped on request"
    if end.stopped is not None:
        return _stopped(end, end.stopped)
    found = verdict(end.code, end.signal, end.tail, strains, host_kills)
    if found.end is RunState.SUCCEEDED and end.never_ready:
        return TrialState.FAILED, "ended before a line of its output matched --ready"
    state = {
        RunState.SUCCEEDED: TrialState.FITS,
        RunState.DEVICE_OUT_OF_MEMORY: TrialState.DEVICE_OUT_OF_MEMORY,
        RunState.HOST_OUT_OF_MEMORY: TrialState.HOST_OUT_OF_MEMORY,
    }.get(found.end, TrialState.FAILED)
    return state, found.words


def _stopped(end: TrialEnd, reason: StopReason) -> tuple[TrialState, str]:
    took = human_seconds(end.seconds)
    if reason is StopReason.LEASE:
        return TrialState.STOPPED, end.why
    if reason is StopReason.READY:
        return TrialState.FITS, f"ready after {took}"
    said = complaint(end.tail)
    if said is not None:  # one of several processes ran out, and the others wait for it
        words = f"out of GPU memory: reported by {said[0]}, and it did not end by itself"
        return TrialState.DEVICE_OUT_OF_MEMORY, words
    if reason is StopReason.HELD:
        return TrialState.FITS, f"ran for {took}"
    return TrialState.HUNG, f"did not end within {took}"
