"""A run or job worked on the device, still holds it, and does nothing."""

from typing import Final, NamedTuple

from andon.explain.conditions.condition import (
    WARNING,
    Condition,
    Precondition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, ENDED, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnHeld
from andon.explain.conditions.promql import LEASES_ARE_NO_METRIC
from andon.explain.conditions.sharing.phrases import lease_evidence
from andon.explain.evidence.observation import HeldDevices
from andon.explain.evidence.phrasing import Clause
from andon.explain.evidence.view import View
from andon.model.device import Process
from andon.model.thresholds import Figure
from andon.model.utilisation import ZERO_READING

SECONDS = Figure(
    "stalled_seconds", 900.0, "how long a run or job that worked may do nothing", 1, 31_536_000,
    switch=True,
)  # fmt: skip
AT_WORK: Final = Finding((CALM,))


class Stalled(NamedTuple):
    """The run that has stalled, and which of its processes still exists."""

    held: HeldDevices
    process: Process


def judge(seen: View) -> Finding:
    """Judges a device on which nothing runs although a process that did still exists. A process
    that never worked loads or waits, and one that has ended is not stalled."""
    held, now, worked = seen.held, seen.sample.utilization_percent, seen.track.worked
    if held is None or not held.is_command:
        return ENDED
    if now is None or not worked:
        return UNKNOWN
    if now > ZERO_READING:
        return AT_WORK
    left = next((p for p in seen.status.processes if (p.pid, p.started) in worked), None)
    if left is None:
        return UNKNOWN if "processes" in seen.status.missing else ENDED
    return Finding(ONE, now, seen.figures.stalled_seconds, about=Stalled(held, left))


def describe(facts: ConditionFacts) -> Description:
    """Which process worked and does nothing, and where to look."""
    about: Stalled = facts.finding.about
    user, pid = about.held.user, about.process.pid
    program = about.process.name or "its run"  # for everyone: no script of a command line
    whose = f"{user}'s {program}" if user else program
    text = Clause(f"{facts.it} is stalled: {whose} worked, and does nothing")
    advice = (
        f"Look at its output and at what process {pid} waits for (py-spy dump --pid {pid}): a "
        "deadlock, a full disk or a lost connection looks like this; so does long work on the CPU."
    )
    return Description(facts.lasting(text), lease_evidence(about.held, (pid,)), advice=advice)


CONDITION = Condition(
    name="stalled",
    title="Run stalled",
    why="A run or job that worked on it still holds it and does nothing: it may have hung.",
    advice="Look at its output, and at what its process waits for.",
    judged=OnHeld(judge),
    rungs=(
        Rung(
            WARNING,
            "held by a run or job, its utilisation is 0, and a process that worked is still there",
            900, "in use for 30 s, or no longer held", 30, for_figure=SECONDS.name,
        ),
    ),
    label="stalled",
    headline="is stalled",
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    needs=Precondition.LEASES,
    weight=3,
    behind=("thermal",),
    promql=LEASES_ARE_NO_METRIC,
)  # fmt: skip
