"""The memory could correct errors (ECC), but does not."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import INFO, AlertFacts, Condition, Rung
from andon.explain.evidence.view import View
from andon.explain.conditions.finding import ONE, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.evidence.phrasing import CERTAIN, Clause, conclude
from andon.explain.evidence.reasons import Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import Device
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


class EccMode(NamedTuple):
    """Whether ECC will be on from the next reboot; None if that is unknown."""

    pending: bool | None


def judge(seen: View) -> Finding | None:
    """Judges ECC that is off where it could be on; a device without ECC does not report it."""
    setup = seen.device.setup
    if setup.ecc:
        return None
    if setup.ecc is None:
        return UNKNOWN
    return Finding(ONE, about=EccMode(setup.ecc_pending))


def sentence(facts: AlertFacts) -> str:
    return f"ECC is off on {facts.it}{_from_then_on(_pending(facts.finding))}"


def advise(facts: AlertFacts) -> str | None:
    return _advice(facts.device, _pending(facts.finding))


def evidence(found: Finding) -> Mapping[str, float | str]:
    pending = _pending(found)
    return {} if pending is None else {"after_reboot": "on" if pending else "off"}


def _pending(found: Finding) -> bool | None:
    return found.about.pending if isinstance(found.about, EccMode) else None


def _from_then_on(pending: bool | None) -> str:
    return "; it will be on after a reboot" if pending else ""


def _advice(device: Device | None, pending: bool | None) -> str | None:
    if pending:
        return REBOOT
    if device is None or device.vendor != NVIDIA.name:
        return None
    return ADVICE.replace("-i N", f"-i {device.index}")


def explain(view: View) -> Reason | None:
    """ECC is off where it could be on, or will be off."""
    device, setup = view.status.device, view.status.device.setup
    if not view.status.answered or setup.ecc is None:
        return None
    more = [view.derived("setup.ecc", _word(setup.ecc))]
    more.append(view.derived("setup.ecc_pending", _word(setup.ecc_pending)))
    if setup.ecc:
        if setup.ecc_pending is not False:
            return None
        text = Clause("ECC is on, and will be off after a reboot")
        return conclude(ECC_OFF, CERTAIN, text, more, mild=True)
    later = _from_then_on(setup.ecc_pending)
    text = Clause(f"ECC is off, so memory errors are not corrected{later}")
    advice = _advice(device, setup.ecc_pending) or ADVICE
    return conclude(ECC_OFF, CERTAIN, text, more, advice=advice)


def _word(mode: bool | None) -> str | None:
    return None if mode is None else "on" if mode else "off"


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
    sentence=sentence,
    advise=advise,
    evidence=evidence,
    figures=(SECONDS,),
    weight=2,
    reasons=(Explanation(explain, (ECC_OFF,)),),
    promql=(lambda t, fires: f"{t.m('gpu_ecc_enabled')} == 0",),
)  # fmt: skip
