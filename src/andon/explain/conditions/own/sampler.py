"""The sampler misses readings."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import reported
from andon.explain.conditions.judging import OnReport

CONDITION = Condition(
    name="sampler",
    title="Readings missed",
    subject_kind=Subject.ANDON,
    why="Without readings nothing is monitored.",
    advice="See what a reading costs: andon cost",
    judged=OnReport(),
    rungs=(Rung(WARNING, "the sampler misses readings", 60, "it misses none", 120),),
    describe=reported("Readings are missed"),
    weight=7,
    promql="andon reports its own problems; AndonSnapshotOld fires when it does not run",
)
