"""The hardware throttles the device: the power supply, or a cause that it does not report."""

from typing import Final

from andon.explain.conditions.clocks.phrases import clocks, slower
from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description, lately
from andon.explain.conditions.finding import CALM, HOLDS, UNKNOWN, Finding, Rungs
from andon.explain.conditions.heat.limits import heat_throttling
from andon.explain.conditions.heat.phrases import slowed_query
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import ReasonKind
from andon.explain.evidence.view import View
from andon.model.throttling import HW_SLOWDOWN
from andon.model.throttling import POWER_BRAKE as POWER_BRAKE_REASON

BRAKE, SLOWDOWN = POWER_BRAKE_REASON.name, HW_SLOWDOWN.name
POWER_BRAKE = ReasonKind("power_brake", "the machine signals it to draw less power", 90)
HARDWARE_SLOWDOWN = ReasonKind(
    "hardware_slowdown", "throttled by the hardware, which reports neither heat nor power", 88
)

CHECK_POWER = "Check the power supplies, their cables and the rack's power budget."
_UNEXPLAINED: Final[Rungs] = (HOLDS, CALM)
_BRAKED: Final[Rungs] = (CALM, HOLDS)


def judge(seen: View) -> Finding | None:
    """Judges throttling by hardware: the power supply, or a cause that it does not report."""
    reasons = seen.reasons
    if not reasons:
        return None if reasons is not None else UNKNOWN
    if BRAKE in reasons:
        return Finding(_BRAKED)
    if SLOWDOWN not in reasons:
        return None
    now, limit = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    if heat_throttling(reasons, now, limit, seen.figures):
        return None
    return Finding(_UNEXPLAINED)


def describe(facts: ConditionFacts) -> Description:
    """Whether the power supply or the hardware slows it down, and what that costs."""
    if facts.finding.rungs == _BRAKED:
        text = phrase("{it} is throttled: its power supply signals an emergency", facts.it)
        return _described(text, facts, BRAKE, "power_watts", POWER_BRAKE, CHECK_POWER)
    text = phrase("The hardware throttles {it} without giving a reason", facts.it)
    return _described(text, facts, SLOWDOWN, "temperature_celsius", HARDWARE_SLOWDOWN, "")


def _described(
    text: Clause, facts: ConditionFacts, reason: str, reading: str, kind: ReasonKind, advice: str
) -> Description:
    view = facts.device
    text = text + slower(view) + lately(view, (reason,))
    more = [view.read("throttle"), *clocks(view), view.read(reading)]
    return Description(text, more, advice=advice, kind=kind)


def _unexplained(t: PromTerms, fires: str) -> str:
    other = f"({slowed_query(t)} or {t.reason(BRAKE)})"
    return f"{t.reason(SLOWDOWN)} unless on ({DEVICE}) {other}"


CONDITION = Condition(
    name="throttle_hardware",
    title="Throttled by the hardware",
    why="A cable, a power supply or the board itself is slowing it down.",
    advice="Check its power cables and supplies first, then the cooling: "
    "sudo nvidia-smi -q -d PERFORMANCE",
    judged=OnReading(judge, reasons=frozenset({BRAKE, SLOWDOWN})),
    rungs=(
        Rung(
            WARNING,
            "the hardware throttles it and reports neither heat nor power",
            30, "it does not", 120,
        ),
        Rung(CRITICAL, "the power supply throttles it", 30, "it does not", 120),
    ),
    label="throttled",
    headline="is throttled by the hardware",
    describe=describe,
    weight=14,
    kinds=(POWER_BRAKE, HARDWARE_SLOWDOWN),
    promql=(_unexplained, lambda t, fires: t.reason(BRAKE)),
)  # fmt: skip
