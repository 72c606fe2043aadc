"""A vendor's driver cannot be read at all: missing, mismatched, forbidden, or failing to start."""

from andon.explain.conditions.condition import CRITICAL, Condition, Rung, Subject
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import ONE, Finding
from andon.explain.conditions.judging import OnFault
from andon.explain.conditions.node.drivers import (
    UnreadableDriver,
    cannot_be_read,
    lacks_device_files,
    of_driver,
    readable,
)
from andon.explain.conditions.state.phrases import (
    FAULT_KINDS,
    as_sentence,
    kind_of_fault,
    last_readings,
    state_evidence,
)
from andon.explain.evidence.phrasing import Clause
from andon.explain.evidence.reasons import Evidence
from andon.model.device import Fault, Snapshot
from andon.model.vendors import vendor_of_backend

ADVICE = "Find out why: andon doctor"
MORE = "For details: andon doctor"


def judge(fault: Fault, snapshot: Snapshot) -> Finding | None:
    """Judges a driver with cards which no other backend reads."""
    if not cannot_be_read(fault, snapshot) or lacks_device_files(fault):
        return None
    return Finding(ONE, about=UnreadableDriver(fault, readable(snapshot)))


def describe(facts: ConditionFacts) -> Description:
    """Why it cannot be read, and what can."""
    about: UnreadableDriver = facts.finding.about
    fault, view = about.fault, facts.view
    vendor = f"{vendor_of_backend(fault.source).title} " if about.others else ""
    text = Clause(f"No {vendor}GPU can be read: {fault.reason}", tuple(of_driver(fault)))
    more = [Evidence("devices_readable", about.others)]
    if fault.cards is not None:
        more.append(Evidence("cards", fault.cards))
    if fault.code:
        more.append(Evidence("code", fault.code))
    if view is not None:
        more += [state_evidence(view), *last_readings(view)]
    advice = f"{as_sentence(fault.hint)} {MORE}" if fault.hint else ""
    return Description(text, more, advice=advice, kind=kind_of_fault(fault))


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
    describe=describe,
    weight=19,
    kinds=FAULT_KINDS,
    promql="AndonSourceFailed fires for every reader that fails; whether its cards are present is "
    "not a metric",
)  # fmt: skip
