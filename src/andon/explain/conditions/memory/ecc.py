"""The memory returned wrong data that could not be corrected."""

from typing import NamedTuple

from andon.explain.conditions import triggers
from andon.explain.conditions.condition import (
    CRITICAL,
    DAY_SECONDS,
    INFO,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.conditions.finding import CALM, EVENT, Finding
from andon.explain.conditions.judging import OnEvents
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.measures import ecc_rise
from andon.explain.evidence.phrasing import CERTAIN, Clause, conclude, say
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import DeviceStatus
from andon.model.lamp import Lamp

KNOWN_BEFORE, ROSE = (EVENT, CALM), (CALM, EVENT)
ECC = ReasonKind("ecc", "the memory returned wrong data that could not be corrected", 80)
CLEARS = "24 h without another, or 60 s after the counter was reset"


class Errors(NamedTuple):
    """The new errors besides their count: "2 new", or the driver's text."""

    detail: str | None = None


class Counted(NamedTuple):
    """What an error count means."""

    finding: Finding | None
    was_reset: bool = False


def judge_ecc_count(before: int | None, count: int) -> Counted:
    """Returns what an error count means after a different one; without an earlier one, andon
    sees the device for the first time."""
    if not count:
        return Counted(None, was_reset=before is not None)
    if before is None:
        return Counted(Finding(KNOWN_BEFORE, count, about=Errors()))
    new = f"{count - before} new" if count > before else None
    return Counted(Finding(ROSE, count, about=Errors(new)))


def judge_ecc_event(detail: str | None) -> Finding:
    """Judges an error that the driver reports on its own, without a count."""
    return Finding(ROSE, about=Errors(detail))


def present(status: DeviceStatus) -> Finding | None:
    """Judges the errors since the driver was loaded: the device is withheld until it is reset."""
    count = status.sample.ecc_uncorrected if status.answered and status.sample else None
    return Finding(KNOWN_BEFORE, count, about=Errors()) if count else None


def sentence(facts: AlertFacts) -> str:
    value, about = facts.finding.value, facts.finding.about
    detail = about.detail if isinstance(about, Errors) else None
    count = "" if value is None else f"{value:.0f} "
    errors = "error" if value == 1 else "errors"
    more = f" ({detail})" if detail else ""
    return f"{facts.it} has {count}uncorrectable memory {errors}{more}"


def explain(view: View) -> Reason | None:
    """The memory returned wrong data that could not be corrected."""
    if not view.at_least("ecc_uncorrected", 1):
        return None
    text = say("Uncorrectable memory errors: {n}", n=view.read("ecc_uncorrected"))
    text = text + Clause(" since the driver was loaded")
    rise = view.derived("ecc_rise", ecc_rise(view) or None)
    text = text + say(", {rise} of them while sampling", rise=rise)
    advice = (
        "Results since then may be wrong. Check sudo dmesg | grep -i xid, then reset it or reboot; "
        "if the errors return, have the card replaced."
    )
    return conclude(ECC, CERTAIN, text, advice=advice)


def _rose(t: PromTerms, fires: str) -> str:
    return f"increase({t.m('gpu_ecc_uncorrected_errors_total')}[24h]) > 0"


CONDITION = Condition(
    name="ecc",
    title="Memory errors",
    why="The memory returned wrong data that could not be corrected: results may be wrong.",
    advice="Stop the work on it and reset the device; if the errors return, have it replaced.",
    judged=OnEvents(),
    lit_if=triggers.memory_errors,
    rungs=(
        Rung(
            INFO, "errors from before andon first saw it",
            0, CLEARS, DAY_SECONDS, notify=False, lamp=Lamp.AMBER,
        ),
        Rung(CRITICAL, "the count of uncorrected errors rose", 0, CLEARS, DAY_SECONDS),
    ),
    label="memory errors",
    headline="has memory errors",
    sentence=sentence,
    present=present,
    unit="errors",
    weight=15,
    momentary=True,
    reasons=(Explanation(explain, (ECC,)),),
    promql=(None, _rose),
)  # fmt: skip
