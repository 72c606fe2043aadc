"""How andon itself is: what its looks cost, what it missed, what it could not keep."""

from collections.abc import Iterator
from dataclasses import dataclass

from andon.core.alerting import Trouble

WINDOW_SECONDS = 300.0
MOST_COST_PERCENT = 20.0  # of one core, our own code alone
MOST_MISSED_PERCENT = 10.0
LEAST_TICKS = 20
FULL_PERCENT = 110.0  # upkeep cuts back to the budget: above it, it does not keep up


@dataclass(frozen=True, slots=True)
class Vitals:
    """Counters since the start, and the state of the store; None where it is not known."""

    at: float  # on a clock that only moves forward
    ticks: int = 0
    missed: int = 0
    cpu_seconds: float = 0.0
    failed_ticks: int = 0
    dropped: int = 0
    store_bytes: int | None = None
    store_budget_bytes: int | None = None
    store_reason: str | None = None
    store_hint: str = ""


def troubles(earlier: Vitals, now: Vitals) -> tuple[Trouble, ...]:
    """What is wrong by the difference of two readings, some minutes apart."""
    return (*_sampler(earlier, now), *_store(earlier, now))


def _sampler(earlier: Vitals, now: Vitals) -> Iterator[Trouble]:
    ticks, missed = now.ticks - earlier.ticks, now.missed - earlier.missed
    seconds = now.at - earlier.at
    failed = now.failed_ticks - earlier.failed_ticks
    reasons: list[str] = []
    if ticks + missed >= LEAST_TICKS:
        share = 100.0 * missed / (ticks + missed)
        if share > MOST_MISSED_PERCENT:
            reasons.append(f"{share:.0f} % of the looks of the last {_minutes(seconds)} were missed")
        cost = 100.0 * (now.cpu_seconds - earlier.cpu_seconds) / seconds if seconds > 0 else 0.0
        if cost > MOST_COST_PERCENT:
            reasons.append(f"looking costs {cost:.0f} % of a core")
    if failed > 0:
        reasons.append(f"{failed} looks of the last {_minutes(seconds)} failed")
    if reasons:
        yield Trouble("sampler", "; ".join(reasons), "see what it costs: andon cost")


def _store(earlier: Vitals, now: Vitals) -> Iterator[Trouble]:
    if now.store_reason is not None:
        yield Trouble("store", now.store_reason, now.store_hint)
        return
    dropped = now.dropped - earlier.dropped
    if dropped > 0:
        yield Trouble("store", f"{dropped} looks could not be kept", "look at the disk: andon doctor")
    elif now.store_bytes and now.store_budget_bytes:
        share = 100.0 * now.store_bytes / now.store_budget_bytes
        if share > FULL_PERCENT:
            yield Trouble(
                "store", f"the history takes {share:.0f} % of its budget", "make room: andon gc"
            )


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"
