"""The holder of a lease exited, but its processes still run."""

from andon.explain.conditions.condition import (
    WARNING,
    AlertFacts,
    Condition,
    Precondition,
    Rung,
    Subject,
)
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnLease, Statuses
from andon.explain.evidence.observation import HeldDevices
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    LEASE,
    Holders,
    capital,
    holder_evidence,
    lasting,
    named,
)
from andon.explain.evidence.blame import pid_with
from andon.model.thresholds import Figure, Thresholds

SECONDS = Figure(
    "orphan_seconds",
    60.0,
    "how long a job may outlive the holder of its lease",
    1,
    31_536_000,
    switch=True,
)


def judge(held: HeldDevices, statuses: Statuses, figures: Thresholds) -> Finding | None:
    """Judges by the lease book."""
    return Finding(ONE, about=Holders((held,))) if held.orphaned else None


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, Holders):
        return lasting(f"{capital(facts.it)} is orphaned", facts)
    left = about.holders[0].who
    first = pid_with(left[0]) if left else "its work"
    running = f"{first} and {len(left) - 1} more are" if len(left) > 1 else f"{first} is"
    why = f"its holder exited but {running} still running"
    withheld = f", {facts.gpus} withheld" if facts.gpus else ""
    return lasting(f"{capital(named(about.holders))} is orphaned: {why}{withheld}", facts)


def advise(facts: AlertFacts) -> str | None:
    about = facts.finding.about
    if not isinstance(about, Holders):
        return None
    held = about.holders[0]
    if not held.id.startswith(LEASE) or not held.remedy:
        return None
    return f"Stop what is still running to free the devices: {held.remedy}"


CONDITION = Condition(
    name="orphan",
    title="Orphaned lease",
    subject_kind=Subject.LEASE,
    why="Its devices are withheld from others.",
    advice="Stop what is still running to free the devices: andon leases",
    judged=OnLease(judge, ends_with_lease=False),
    rungs=(
        Rung(
            WARNING,
            "its holder exited but its processes still run",
            60, "they ended", 60, for_figure=SECONDS.name,
        ),
    ),
    sentence=sentence,
    advise=advise,
    evidence=holder_evidence,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=4,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
