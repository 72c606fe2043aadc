"""The PCIe link is narrower or slower than the card supports; only `why` mentions it."""

from andon.core.conditions.condition import Condition, Subject
from andon.core.evidence.phrasing import CERTAIN, Clause, conclude, say
from andon.core.evidence.reasons import Evidence, Explanation, Reason, ReasonKind
from andon.core.evidence.view import View

LINKED_PERCENT = 20  # below this load a card may slow its link
NARROW_LINK = ReasonKind(
    "narrow_link", "PCIe narrower or slower than the card supports, while busy", 36
)
ADVICE = "Reseat the card; check the riser and the slot's lanes in the firmware settings."


def explain(view: View) -> Reason | None:
    """The PCIe link is narrower or slower than the card supports, while busy."""
    width, generation = _short(view, "pcie_width"), _short(view, "pcie_generation")
    if not (width or generation):
        return None
    text = say("PCIe link")
    if width:
        text = text + say(" has {w} of {most} lanes", w=width[0], most=width[1])
    if generation:
        text = text + (Clause(" and") if width else Clause())
        text = text + say(" runs at generation {g} of {m}", g=generation[0], m=generation[1])
    text = text + say(" while {u} busy", u=view.read("utilization_percent"))
    return conclude(NARROW_LINK, CERTAIN, text, advice=ADVICE)


def _short(view: View, name: str) -> tuple[Evidence, Evidence] | None:
    """The link and its maximum, if it is below that and was read while the device was busy."""
    now, most = view.read(name), view.limit(name)
    if (
        now is None
        or most is None
        or getattr(view.sample, name) >= getattr(view.status.device.limits, name)
    ):
        return None
    return (now, most) if _worked_at(view, now.at) else None


def _worked_at(view: View, at: float | None) -> bool:
    """Whether it is busy now and was when the link was read: an idle card slows its link."""
    before = [s.sample for s in view.past if s.sample is not None and s.sample.at <= (at or 0.0)]
    then = before[-1].utilization_percent if before else None
    now_works = view.at_least("utilization_percent", LINKED_PERCENT)
    return now_works and then is not None and then >= LINKED_PERCENT


CONDITION = Condition(
    name="narrow_link",
    title="Narrow PCIe link",
    subject_kind=Subject.DEVICE,
    why="The PCIe link is narrower or slower than the card supports while the device is busy: data "
    "takes longer to reach it.",
    advice=ADVICE,
    reasons=(Explanation(explain, (NARROW_LINK,)),),
)
