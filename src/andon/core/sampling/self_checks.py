"""How andon itself is: what its looks cost, what it missed, what it could not keep."""

from collections.abc import Iterator
from dataclasses import dataclass

from andon.core.conditions.state import OwnTrouble

WINDOW_SECONDS = 300.0
MOST_COST_PERCENT = 20.0  # of one core, our own code alone
MOST_MISSED_PERCENT = 10.0
LEAST_TICKS = 20
FULL_PERCENT = 120.0  # upkeep cuts back to the budget: above this, it does not keep up


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How the history is; None where there is nothing to say."""

    reason: str | None = None
    hint: str = ""
    dropped: int = 0
    size_bytes: int | None = None
    budget_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SelfStats:
    """Counters since the start, at one instant of a clock that only moves forward."""

    at: float
    snapshots: int = 0
    missed: int = 0
    failed: int = 0
    cpu_seconds: float = 0.0
    store: StoreStats = StoreStats()


def troubles(earlier: SelfStats, now: SelfStats) -> tuple[OwnTrouble, ...]:
    """What is wrong by the difference of two readings, some minutes apart."""
    looking = "; ".join(_looking(earlier, now))
    found = (
        (OwnTrouble("sampler", looking, "see what a look costs: andon cost"),) if looking else ()
    )
    return (*found, *_storing(earlier.store, now.store))


def _looking(earlier: SelfStats, now: SelfStats) -> Iterator[str]:
    taken, missed = now.snapshots - earlier.snapshots, now.missed - earlier.missed
    failed, seconds = now.failed - earlier.failed, now.at - earlier.at
    span = f"the last {max(1, round(seconds / 60))} min"
    if failed > 0:
        yield f"{failed} looks of {span} failed"
    if taken + missed < LEAST_TICKS or seconds <= 0:
        return
    share = 100.0 * missed / (taken + missed)
    if share > MOST_MISSED_PERCENT:
        yield f"{share:.0f} % of the looks of {span} were missed"
    cost = 100.0 * (now.cpu_seconds - earlier.cpu_seconds) / seconds
    if cost > MOST_COST_PERCENT:
        yield f"looking costs {cost:.0f} % of a core"


def _storing(earlier: StoreStats, now: StoreStats) -> Iterator[OwnTrouble]:
    dropped = now.dropped - earlier.dropped
    if now.reason is not None:
        yield OwnTrouble("store", now.reason, now.hint)
    elif dropped > 0:
        yield OwnTrouble("store", f"{dropped} looks could not be kept", "see why: andon doctor")
    elif now.size_bytes and now.budget_bytes:
        share = 100.0 * now.size_bytes / now.budget_bytes
        if share > FULL_PERCENT:
            reason = f"the history takes {share:.0f} % of its budget"
            yield OwnTrouble("store", reason, "make room: andon gc")
