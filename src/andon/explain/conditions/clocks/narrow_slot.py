"""The slot allows less than the card: no fault; only `why` mentions it."""

from andon.explain.conditions.condition import Condition
from andon.explain.conditions.description import Description
from andon.explain.conditions.judging import OnRequest
from andon.explain.evidence.phrasing import Clause, listed, phrase
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View

NARROW_SLOT = ReasonKind("narrow_slot", "the slot offers a slower link than the card supports", 5)


def explain(view: View) -> Description | None:
    """Explains a slot that allows less than the card: no fault, but worth knowing."""
    width, generation = _slotted(view, "width"), _slotted(view, "generation")
    lanes = phrase("{s} of its {c} lanes", s=width[0], c=width[1]) if width else Clause()
    speed = Clause()
    if generation:
        speed = phrase("PCIe generation {s} of {c}", s=generation[0], c=generation[1])
    if not lanes and not speed:
        return None
    text = Clause("Its slot offers ") + listed([lanes, speed])
    return Description(text)


def _slotted(view: View, name: str) -> tuple[Evidence, Evidence] | None:
    """Returns what slot and card support, if a physical slot supports less."""
    limits, now = view.device.limits, getattr(view.sample, f"pcie_{name}")
    slot, own = getattr(limits, f"pcie_slot_{name}"), getattr(limits, f"pcie_{name}")
    if now is None or slot is None or own is None or slot >= own or now > slot:
        return None
    offered, supported = view.limit(f"pcie_slot_{name}"), view.limit(f"pcie_{name}")
    return None if offered is None or supported is None else (offered, supported)


CONDITION = Condition(
    name="narrow_slot",
    title="Slow slot",
    why="The slot offers a slower PCIe link than the card supports.",
    advice="Nothing to do, unless a faster slot is free.",
    judged=OnRequest(explain),
    kinds=(NARROW_SLOT,),
)
