"""The holder of a lease exited, but its processes still run."""

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Precondition,
    Rung,
    Subject,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnLease, Statuses
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    LEASE,
    Holders,
    capital,
    lease_evidence,
    named,
)
from andon.explain.evidence.blame import pid_with
from andon.explain.evidence.observation import HeldDevices
from andon.explain.evidence.phrasing import Clause
from andon.model.thresholds import Figure, Thresholds
from andon.units import and_more, fitting

SECONDS = Figure(
    "orphan_seconds",
    60.0,
    "how long a job may outlive the holder of its lease",
    1,
    31_536_000,
    switch=True,
)


def judge(held: HeldDevices, statuses: Statuses, figures: Thresholds) -> Finding | None:
    """Judges a lease by its state in the lease book."""
    return Finding(ONE, about=Holders((held,))) if held.orphaned else None


def describe(facts: ConditionFacts) -> Description:
    """What still runs, and how to stop it."""
    about: Holders = facts.finding.about
    held = about.holders[0]
    first = pid_with(held.who[0]) if held.who else "its work"
    still = fitting(max(1, len(held.who)), "is", "are")
    running = f"{first}{and_more(len(held.who) - 1)} {still}"
    withheld = f", {facts.gpus} withheld" if facts.gpus else ""
    why = f"its holder exited but {running} still running{withheld}"
    text = Clause(f"{capital(named(about.holders))} is orphaned: {why}")
    stop = f"Stop what is still running to free the devices: {held.remedy}"
    advice = stop if held.id.startswith(LEASE) and held.remedy else ""
    return Description(facts.lasting(text), lease_evidence(held), advice=advice)


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
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=4,
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
