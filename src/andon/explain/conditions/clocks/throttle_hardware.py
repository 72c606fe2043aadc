"""The hardware throttles the device: the power supply, or a cause that it does not report."""

from collections.abc import Mapping
from typing import Final

from andon.explain.conditions.clocks.phrases import clocks, slower
from andon.explain.conditions.condition import (
    CRITICAL,
    WARNING,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.evidence.view import View
from andon.explain.conditions.heat.limits import heat_throttling
from andon.explain.conditions.heat.phrases import slowed_query, throttling
from andon.explain.conditions.finding import CALM, HOLDS, UNKNOWN, Finding, Rungs
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import DEVICE, PromTerms
from andon.explain.conditions.wording import last_hour, lately
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.throttling import HW_SLOWDOWN
from andon.model.throttling import POWER_BRAKE as POWER_BRAKE_REASON

BRAKE, SLOWDOWN = POWER_BRAKE_REASON.name, HW_SLOWDOWN.name
POWER_BRAKE = ReasonKind("power_brake", "the machine signals it to draw less power", 90)
HARDWARE_SLOWDOWN = ReasonKind(
    "hardware_slowdown", "throttled by the hardware, which reports neither heat nor power", 88
)

_UNEXPLAINED: Final[Rungs] = (HOLDS, CALM)
_BRAKED: Final[Rungs] = (CALM, HOLDS)


def judge(seen: View) -> Finding | None:
    """The hardware throttles it: the power supply, or a cause that it does not report."""
    reasons = seen.reasons
    if not reasons:
        return None if reasons is not None else UNKNOWN
    if BRAKE in reasons:
        return Finding(_BRAKED, about=seen.track)
    if SLOWDOWN not in reasons:
        return None
    now, limit = seen.sample.temperature_celsius, seen.device.limits.slowdown_celsius
    if heat_throttling(reasons, now, limit, seen.figures):
        return None
    return Finding(_UNEXPLAINED, about=seen.track)


def sentence(facts: AlertFacts) -> str:
    found, past = facts.finding, lately(facts.finding.about, _reasons(facts.finding))
    if found.rungs == _BRAKED:
        return f"{facts.it} is throttled: its power supply signals an emergency{past}"
    return f"The hardware throttles {facts.it} without giving a reason{past}"


def evidence(found: Finding) -> Mapping[str, float | str]:
    return last_hour(found.about, _reasons(found))


def _reasons(found: Finding) -> tuple[str, ...]:
    return (BRAKE,) if found.rungs == _BRAKED else (SLOWDOWN,)


def explain_power_brake(view: View) -> Reason | None:
    """The machine signals the card to draw less power."""
    if not view.held_back_by(BRAKE):
        return None
    text = say("Power brake: the power supply signals an emergency") + slower(view)
    more = [view.read("throttle"), *clocks(view), view.read("power_watts")]
    advice = "Check the power supplies, their cables and the rack's power budget."
    return conclude(POWER_BRAKE, CERTAIN, text, more, advice=advice)


def explain_hardware_slowdown(view: View) -> Reason | None:
    """The hardware throttles it, and reports neither heat nor the power brake."""
    if not view.held_back_by(SLOWDOWN) or view.held_back_by(BRAKE) or throttling(view):
        return None
    text = say("The hardware throttles it without giving a reason") + slower(view)
    more = [view.read("throttle"), *clocks(view), view.read("temperature_celsius")]
    advice = "Check its power cables first, then the cooling: sudo nvidia-smi -q -d PERFORMANCE"
    return conclude(HARDWARE_SLOWDOWN, CERTAIN, text, more, advice=advice)


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
    sentence=sentence,
    evidence=evidence,
    weight=14,
    reasons=(
        Explanation(explain_power_brake, (POWER_BRAKE,)),
        Explanation(explain_hardware_slowdown, (HARDWARE_SLOWDOWN,)),
    ),
    promql=(_unexplained, lambda t, fires: t.reason(BRAKE)),
)  # fmt: skip
