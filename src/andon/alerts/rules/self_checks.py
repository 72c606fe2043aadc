"""andon's own health: the cost of sampling, missed samples, and readings that were not stored."""

from collections.abc import Iterator

from msgspec import Struct

from andon.explain.evidence.observation import OwnTrouble

WINDOW_SECONDS = 300.0
MOST_COST_PERCENT = 20.0  # of one core, our own code only
MOST_MISSED_PERCENT = 10.0
LEAST_TICKS = 20
FULL_PERCENT = 120.0  # maintenance cuts back to the budget: above this, it does not keep up


class StoreStats(Struct, frozen=True):
    """State of the history; None where unknown."""

    reason: str | None = None
    hint: str = ""
    dropped: int = 0
    size_bytes: int | None = None
    budget_bytes: int | None = None


class SelfStats(Struct, frozen=True):
    """Counters since the start, at one instant of a monotonic clock."""

    at: float
    snapshots: int = 0
    missed: int = 0
    failed: int = 0
    cpu_seconds: float = 0.0
    store: StoreStats = StoreStats()


def troubles(earlier: SelfStats, now: SelfStats) -> tuple[OwnTrouble, ...]:
    """Returns the problems, from the difference of two measurements some minutes apart."""
    sampling = "; ".join(_sampling(earlier, now))
    found = (OwnTrouble("sampler", sampling, "measure the cost: andon cost"),) if sampling else ()
    return (*found, *_storing(earlier.store, now.store))


def _sampling(earlier: SelfStats, now: SelfStats) -> Iterator[str]:
    taken, missed = now.snapshots - earlier.snapshots, now.missed - earlier.missed
    failed, seconds = now.failed - earlier.failed, now.at - earlier.at
    span = f"the last {max(1, round(seconds / 60))} min"
    if failed > 0:
        yield f"{failed} readings failed in {span}"
    if taken + missed < LEAST_TICKS or seconds <= 0:
        return
    share = 100.0 * missed / (taken + missed)
    if share > MOST_MISSED_PERCENT:
        yield f"{share:.0f} % of readings missed in {span}"
    cost = 100.0 * (now.cpu_seconds - earlier.cpu_seconds) / seconds
    if cost > MOST_COST_PERCENT:
        yield f"sampling uses {cost:.0f} % of a core"


def _storing(earlier: StoreStats, now: StoreStats) -> Iterator[OwnTrouble]:
    dropped = now.dropped - earlier.dropped
    if now.reason is not None:
        yield OwnTrouble("store", now.reason, now.hint)
    elif dropped > 0:
        yield OwnTrouble(
            "store", f"{dropped} readings could not be stored", "see why: andon doctor"
        )
    elif now.size_bytes and now.budget_bytes:
        share = 100.0 * now.size_bytes / now.budget_bytes
        if share > FULL_PERCENT:
            reason = f"the history uses {share:.0f} % of its size limit"
            yield OwnTrouble("store", reason, "free space: andon gc")
