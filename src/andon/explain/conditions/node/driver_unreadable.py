"""A vendor's driver cannot be read at all: missing, mismatched, forbidden, or failing to start."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.explain.conditions.condition import CRITICAL, AlertFacts, Condition, Rung, Subject
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnFault
from andon.explain.conditions.node.drivers import (
    cannot_be_read,
    fault_behind,
    lacks_device_files,
    readable,
)
from andon.explain.conditions.state.phrases import (
    FAULT_KINDS,
    as_sentence,
    because,
    kind_of_fault,
    last_readings,
    of_fault,
    state_evidence,
)
from andon.explain.evidence.phrasing import CERTAIN, conclude, say
from andon.explain.evidence.reasons import FaultExplanation, Reason
from andon.explain.evidence.view import Explanation, View
from andon.model.device import Fault, Snapshot
from andon.model.vendors import vendor_of_backend

ADVICE = "Find out why: andon doctor"
MORE = "For details: andon doctor"


class UnreadableDriver(NamedTuple):
    """Why the driver cannot be read, and what else can."""

    fault: Fault
    others: int  # devices of other vendors that can


def judge(fault: Fault, snapshot: Snapshot) -> Finding | None:
    """Judges a driver with cards which no other backend reads."""
    if not cannot_be_read(fault, snapshot) or lacks_device_files(fault):
        return None
    return Finding(ONE, about=UnreadableDriver(fault, readable(snapshot)))


def sentence(facts: AlertFacts) -> str:
    about = facts.finding.about
    if not isinstance(about, UnreadableDriver):
        return f"{facts.it} cannot be read"
    vendor = f"{vendor_of_backend(about.fault.source).title} " if about.others else ""
    return f"No {vendor}GPU can be read: {about.fault.reason}"


def advise(facts: AlertFacts) -> str | None:
    about = facts.finding.about
    hint = about.fault.hint if isinstance(about, UnreadableDriver) else ""
    return f"{as_sentence(hint)} {MORE}" if hint else None


def evidence(finding: Finding) -> Mapping[str, float | str]:
    about = finding.about
    if not isinstance(about, UnreadableDriver):
        return {}
    fault = about.fault
    known: dict[str, float | str] = {"source": fault.source, "fault": fault.reason}
    known["devices_readable"] = about.others
    if fault.code:
        known["code"] = fault.code
    return known if fault.cards is None else {**known, "cards": fault.cards}


def explain(view: View) -> Reason | None:
    """Explains a device that is lost because its whole driver cannot be read."""
    fault = fault_behind(view.status, view.snapshot)
    if fault is None or lacks_device_files(fault):
        return None
    more = [state_evidence(view), *last_readings(view)]
    advice = f"{as_sentence(fault.hint)} {MORE}." if fault.hint else f"{ADVICE}."
    text = say("Cannot be read") + because(view)
    return conclude(kind_of_fault(fault), CERTAIN, text, more, advice=advice)


def explain_fault(fault: Fault, snapshot: Snapshot) -> Reason | None:
    return None if judge(fault, snapshot) is None else of_fault(fault, snapshot.at)


CONDITION = Condition(
    name="driver_unreadable",
    title="Driver cannot be read",
    subject_kind=Subject.NODE,
    why="The cards are present, but nothing is known about them: no driver is loaded, driver and "
    "library versions differ, andon may not use it, or it does not start.",
    advice=ADVICE,
    judged=OnFault(judge),
    rungs=(
        Rung(
            CRITICAL,
            "a vendor's cards are present, but none can be read in any way",
            10, "one can be read, or none is present", 60,
        ),
    ),
    label="cannot be read",
    headline="cannot be read",
    sentence=sentence,
    advise=advise,
    evidence=evidence,
    weight=19,
    reasons=(Explanation(explain, FAULT_KINDS),),
    fault_reasons=(FaultExplanation(explain_fault, FAULT_KINDS),),
    promql="AndonSourceFailed fires for every reader that fails; whether its cards are present is "
    "not a metric",
)  # fmt: skip
