"""The reports of a machine to this hub are unreliable."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import reported
from andon.explain.conditions.judging import OnReport

CONDITION = Condition(
    name="node_doubtful",
    title="Node's reports are doubtful",
    subject_kind=Subject.ANDON,
    why="Its readings are shown at the wrong time, or are those of two machines.",
    advice="Set its clock, or give each machine a token of its own: andon nodes add NAME",
    judged=OnReport(),
    rungs=(
        Rung(
            WARNING,
            "the clock of a node is wrong by 30 s, or two machines have its name",
            60,
            "neither is so",
            60,
        ),
    ),
    describe=reported("{it} reports doubtful values"),
    weight=7,
    promql="andon reports its own problems",
)
