"""All devices of a lease are idle."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import (
    NOTHING,
    WARNING,
    AlertFacts,
    Condition,
    Precondition,
    Rung,
    Subject,
)
from andon.explain.conditions.judgement import ENDED, ONE, UNKNOWN, Judgement
from andon.explain.conditions.judging import OnLease, Statuses
from andon.explain.conditions.observation import HeldDevices
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    capital,
    lasting,
    lease_evidence,
    named,
    release_advice,
)
from andon.model.device import DeviceStatus
from andon.model.thresholds import Figure, Thresholds
from andon.model.utilisation import ZERO_READING

SECONDS = Figure(
    "idle_lease_seconds",
    1800.0,
    "how long all devices of a lease may be idle",
    1,
    31_536_000,
    switch=True,
)


class IdleLease(NamedTuple):
    """The lease."""

    holders: tuple[HeldDevices, ...]


def judge(held: HeldDevices, statuses: Statuses, figures: Thresholds) -> Judgement | None:
    """Judges a lease with only idle devices; one in use ends it, one without data is unknown."""
    if held.orphaned:
        return ENDED
    busy = [_busy(statuses.get(uuid)) for uuid in held.devices]
    if any(share is not None and share > ZERO_READING for share in busy):
        return None
    if None in busy or not busy:
        return UNKNOWN
    return Judgement(ONE, 0.0, figures.idle_lease_seconds, None, IdleLease((held,)))


def _busy(status: DeviceStatus | None) -> int | None:
    if status is None or not status.answered or status.sample is None:
        return None
    return status.sample.utilization_percent


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, IdleLease):
        return lasting(f"{capital(facts.it)} is idle", facts)
    left = f"has left {facts.gpus or 'its devices'} idle"
    return lasting(f"{capital(named(about.holders))} {left}", facts)


def advise(facts: AlertFacts) -> str | None:
    about = facts.finding.about
    return release_advice(about.holders[0]) if isinstance(about, IdleLease) else None


def evidence(found: Judgement) -> Mapping[str, float | str]:
    about = found.about
    return lease_evidence(about.holders[0]) if isinstance(about, IdleLease) else NOTHING


CONDITION = Condition(
    name="idle_lease",
    title="Idle lease",
    subject_kind=Subject.LEASE,
    why="Others wait for devices that are not in use.",
    advice="Release it: andon release ID",
    judged=OnLease(judge),
    rungs=(
        Rung(
            WARNING,
            "the utilisation of all its devices is 0",
            1800, "one in use for 60 s, or released", 60, for_figure=SECONDS.name,
        ),
    ),
    sentence=sentence,
    advise=advise,
    evidence=evidence,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=2,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
