"""A machine that reports to this hub has another version of andon."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import reported
from andon.explain.conditions.judging import OnReport

CONDITION = Condition(
    name="node_version",
    title="Node has another version",
    subject_kind=Subject.ANDON,
    why="What one of the two versions does not know is not shown, or refused.",
    advice="Upgrade the older of both",
    judged=OnReport(),
    rungs=(
        Rung(WARNING, "a node has another version than the hub", 3600, "they are the same", 60),
    ),
    describe=reported("{it} has another version than the hub"),
    weight=3,
    promql="andon reports its own problems",
)
