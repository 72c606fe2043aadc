"""The history is not being written."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import reported
from andon.explain.conditions.judging import OnReport

CONDITION = Condition(
    name="store",
    title="History not written",
    subject_kind=Subject.ANDON,
    why="What happens now will be missing from the history.",
    advice="Check the disk: andon doctor",
    judged=OnReport(),
    rungs=(Rung(WARNING, "the store reports a problem", 30, "it reports none", 60),),
    describe=reported("The history is not being written"),
    weight=6,
    promql="andon reports its own problems; AndonSnapshotOld fires when it does not run",
)
