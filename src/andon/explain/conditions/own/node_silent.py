"""A machine no longer reports to this hub."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import reported
from andon.explain.conditions.judging import OnReport

CONDITION = Condition(
    name="node_silent",
    title="Node does not report",
    subject_kind=Subject.ANDON,
    why="Nothing is known of its GPUs, and of who holds them.",
    advice="Check that the machine runs, and andon agent on it",
    judged=OnReport(),
    rungs=(Rung(WARNING, "a node has been silent for 30 s", 0, "it reports again", 15),),
    describe=reported("{it} does not report"),
    weight=8,
    promql="AndonNodeSilent has it from the metrics of a hub",
)
