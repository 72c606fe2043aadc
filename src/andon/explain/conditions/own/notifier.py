"""A notifier does not deliver alerts."""

from andon.explain.conditions.condition import WARNING, Condition, Rung, Subject
from andon.explain.conditions.description import reported
from andon.explain.conditions.judging import OnReport

CONDITION = Condition(
    name="notifier",
    title="Notifier failing",
    subject_kind=Subject.ANDON,
    why="Alerts do not reach people through it.",
    advice="Test it: andon alerts test",
    judged=OnReport(),
    rungs=(Rung(WARNING, "a notifier reports a problem", 60, "it reports none", 120),),
    describe=reported("{it} is failing"),
    weight=7,
    promql="andon reports its own problems",
)
