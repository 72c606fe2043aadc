"""The memory could correct errors (ECC), but does not."""

from typing import Final

from andon.explain.conditions.condition import INFO, Condition, Rung
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.evidence.phrasing import Clause, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View
from andon.model.thresholds import Figure
from andon.model.vendors import NVIDIA

SECONDS = Figure(
    "ecc_off_seconds",
    60.0,
    "how long ECC may be off on a device that supports it",
    1,
    31_536_000,
    switch=True,
)
ECC_OFF = ReasonKind("ecc_off", "its memory could correct errors, but does not", 9, mild=3)
"""Milder: it is on until the next reboot."""
REBOOT = "Reboot when it is not in use."
ADVICE = (
    "If correct results matter more than a little memory and speed, turn it on and reboot: "
    "sudo nvidia-smi -i N -e 1"
)


MODES = {True: "on", False: "off", None: None}


OFF_AFTER_A_REBOOT: Final = Finding((CALM,), notable=True)


def judge(seen: View) -> Finding | None:
    """Judges ECC that is off where it could be on; a device without ECC does not report it."""
    setup = seen.device.setup
    if setup.ecc:
        return OFF_AFTER_A_REBOOT if setup.ecc_pending is False else None
    if setup.ecc is None:
        return UNKNOWN
    return Finding(ONE)


def describe(facts: ConditionFacts) -> Description:
    """Whether it is off now, or will be."""
    view, pending = facts.device, facts.device.device.setup.ecc_pending
    if facts.finding.notable:
        text = phrase("ECC is on for {it}, and will be off after a reboot", facts.it)
        return Description(text, _modes(view), mild=True)
    later = "; it will be on after a reboot" if pending else ""
    text = phrase("ECC is off on {it}: memory errors are not corrected", facts.it) + Clause(later)
    own = view.device.vendor == NVIDIA.name
    advice = ADVICE.replace("-i N", f"-i {view.device.index}") if own else ""
    return Description(text, _modes(view), advice=REBOOT if pending else advice)


def _modes(view: View) -> list[Evidence | None]:
    setup = view.device.setup
    found = {"setup.ecc": setup.ecc, "setup.ecc_pending": setup.ecc_pending}
    return [view.derived(name, MODES[mode]) for name, mode in found.items()]


CONDITION = Condition(
    name="ecc_off",
    title="ECC off",
    why="Its memory could detect and correct errors, but does not: a flipped bit goes unnoticed.",
    advice=ADVICE,
    judged=OnReading(judge),
    rungs=(
        Rung(
            INFO,
            "ECC is off on a device that supports it",
            60, "it is on", 60, notify=False, for_figure=SECONDS.name,
        ),
    ),
    headline="has ECC off",
    describe=describe,
    figures=(SECONDS,),
    weight=2,
    kinds=(ECC_OFF,),
    promql=(lambda t, fires: f"{t.m('gpu_ecc_enabled')} == 0",),
)  # fmt: skip
