"""The device is held and nothing runs on it."""

from typing import Final

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Front,
    Precondition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnHeld
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import (
    Holders,
    lease_evidence,
    release_advice,
)
from andon.explain.evidence.phrasing import Clause
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure
from andon.model.utilisation import ZERO_READING

SECONDS = Figure(
    "idle_seconds", 300.0, "how long a device may be occupied but idle", 1, 31_536_000, switch=True
)
IN_USE: Final = Finding((CALM,))


def judge(seen: View) -> Finding:
    """Judges a device that is held by a lease and on which nothing runs."""
    held, now = seen.held, seen.sample.utilization_percent
    if held is None:
        return ENDED
    if now is None:
        return UNKNOWN
    if now > ZERO_READING:
        return IN_USE
    return Finding(ONE, now, seen.figures.idle_seconds, about=Holders((held,)))


def describe(facts: ConditionFacts) -> Description:
    """Who holds it."""
    held = facts.finding.about.holders[0]
    by = f" by {held.user}" if held.user else ""
    text = facts.lasting(Clause(f"{facts.it} is held{by} but idle"))
    return Description(text, lease_evidence(held), advice=release_advice(held))


CONDITION = Condition(
    name="idle",
    title="Held but idle",
    why="It is held and nothing runs on it, while others may be waiting.",
    advice="Ask its owner whether it is still needed; releasing the lease frees it.",
    judged=OnHeld(judge),
    rungs=(
        Rung(
            WARNING,
            "held by a lease, job or run, and its utilisation is 0",
            300, "in use for 30 s, or no longer held", 30, for_figure=SECONDS.name,
        ),
    ),
    label="held but idle",
    headline="is held but idle",
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=2,
    behind=("thermal",),
    part_of=Front("idle_lease", of_lease=True),
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
