"""Persistence mode is off, and the driver was slow to start when andon opened it.

While andon serves, it keeps the driver running itself; the alert says what happens without it.
"""

from typing import Final

from andon.explain.conditions.condition import INFO, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import NO_DATA, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.phrasing import CERTAIN, POSSIBLE, Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure

SECONDS = Figure(
    "slow_start_seconds",
    2.0,
    "how long the driver may take to start while persistence mode is off",
    0.1,
    600,
    switch=True,
)
PERSISTENCE_OFF = ReasonKind(
    "persistence_off", "the driver stops whenever nothing uses the device", 8, mild=3
)
"""Milder: how long a start takes was not measured."""
ADVICE = (
    "On a machine that is always on, keep the driver ready: "
    "sudo systemctl enable --now nvidia-persistenced"
)


NOT_MEASURED: Final = Finding((NO_DATA,), notable=True)


def judge(seen: View) -> Finding | None:
    """Judges persistence mode that is off, if a start of the driver was seen to be slow."""
    setup = seen.device.setup
    if setup.persistence:
        return None
    took, most = setup.start_seconds, seen.figures.slow_start_seconds
    if setup.persistence is None:
        return UNKNOWN
    if took is None:
        return NOT_MEASURED
    return Finding(ONE, took, most) if took >= most else None


def describe(facts: ConditionFacts) -> Description:
    """What it costs, as far as that was measured."""
    text = phrase("Persistence mode of {it} is off", facts.it)
    if facts.finding.notable:
        text += Clause(": the first program after a pause waits for the driver")
    text += phrase(", and its driver took {s} to start", s=_took(facts.finding.value))
    more = [facts.device.derived("setup.persistence", "off")]
    return Description(text, more, confidence=POSSIBLE if facts.finding.notable else CERTAIN)


def _took(seconds: float | None) -> Evidence | None:
    return None if seconds is None else Evidence("setup.start_seconds", seconds, "s")


def _slow_start(t: PromTerms, fires: str) -> str:
    slow = f"{t.m('gpu_driver_start_seconds')} >= {t.figures.slow_start_seconds:g}"
    return f"{t.m('gpu_persistence_enabled')} == 0 and {slow}"


CONDITION = Condition(
    name="persistence_off",
    title="Persistence mode off",
    why="The driver stops when nothing uses the device, and the next program waits for its start. "
    "While andon serve runs, it keeps the driver running.",
    advice=ADVICE,
    judged=OnReading(judge),
    rungs=(
        Rung(
            INFO,
            "persistence mode is off, and the driver took {slow_start_seconds} s or more to start",
            60, "it is on, or a start was faster", 60, notify=False,
        ),
    ),
    headline="has its persistence mode off",
    describe=describe,
    figures=(SECONDS,),
    unit="seconds",
    weight=1,
    kinds=(PERSISTENCE_OFF,),
    promql=(_slow_start,),
)  # fmt: skip
