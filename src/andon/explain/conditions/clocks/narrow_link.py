"""The PCIe link of a busy device is narrower or slower than card and slot allow.

An idle card slows its link, so it is judged under load only. It is read every few seconds and not
at every sample, so a reading may be from just before the load: five minutes of load outlast that.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from andon.explain.conditions import triggers
from andon.explain.conditions.condition import (
    INFO,
    WARNING,
    AlertFacts,
    Condition,
    Rung,
)
from andon.explain.evidence.view import View
from andon.explain.conditions.finding import CALM, HOLDS, UNKNOWN, Finding, Rungs
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.wording import percent, was
from andon.explain.evidence.phrasing import CERTAIN, Clause, conclude, listed, say
from andon.explain.evidence.reasons import Evidence, Reason, ReasonKind
from andon.explain.evidence.view import Explanation, View
from andon.model.device import DeviceStatus, Limits, Sample, Snapshot
from andon.model.thresholds import Figure

SECONDS = Figure(
    "narrow_link_seconds",
    300.0,
    "how long the PCIe link of a busy device may be below what its card and slot allow",
    60,
    31_536_000,
    switch=True,
)
LINKED_PERCENT = 20  # below this load a card may slow its link
OLD_SECONDS = 60.0  # an older reading of the link says nothing about the load of now
NARROW_LINK = ReasonKind(
    "narrow_link", "PCIe narrower or slower than card and slot allow, while busy", 36
)
NARROW_SLOT = ReasonKind("narrow_slot", "the slot offers a slower link than the card supports", 5)
ADVICE = "Reseat the card; check the riser and the slot's lanes in the firmware settings."
SLOT_ADVICE = "Nothing to do, unless a faster slot is free."
_SLOW: Final[Rungs] = (HOLDS, CALM)
_NARROW: Final[Rungs] = (CALM, HOLDS)
_BOTH: Final[Rungs] = (HOLDS, HOLDS)


class Link(NamedTuple):
    """A link, and what card and slot allow."""

    width: int
    widest: int
    generation: int
    fastest: int

    @property
    def lost_percent(self) -> float:
        """How much of its speed is missing; each generation doubles that of the one before."""
        share = min(1.0, self.width / self.widest)
        share /= 2.0 ** max(0, self.fastest - self.generation)
        return 100.0 * (1 - share)


def judge(seen: View) -> Finding | None:
    """The link of a busy device is below what card and slot allow; idle, it cannot be judged."""
    sample, limits = seen.sample, seen.device.limits
    width, generation = sample.pcie_width, sample.pcie_generation
    widest, fastest = limits.pcie_width, limits.pcie_generation
    if not width or not generation or not widest or not fastest:
        return UNKNOWN
    if width >= widest and generation >= fastest:
        return None
    return _judged(sample, limits)


def _judged(sample: Sample, limits: Limits) -> Finding | None:
    """Judges a link below what the card supports: so is the slot, or something is wrong."""
    link = _link(sample, limits)
    if link is None:
        return UNKNOWN
    narrow, slow = link.width < link.widest, link.generation < link.fastest
    if not narrow and not slow:
        return None
    busy = sample.utilization_percent
    if busy is None or busy < LINKED_PERCENT or _is_old(sample):
        return UNKNOWN
    rungs = (_BOTH if slow else _NARROW) if narrow else _SLOW
    return Finding(rungs, link.lost_percent, about=link)


def _link(sample: Sample, limits: Limits) -> Link | None:
    found = sample.pcie_width, limits.link_width, sample.pcie_generation, limits.link_generation
    if not all(found):
        return None
    width, widest, generation, fastest = found
    return Link(width or 0, widest or 0, generation or 0, fastest or 0)


def _is_old(sample: Sample) -> bool:
    read_at = sample.read_at
    oldest = min(read_at.get("pcie_width", sample.at), read_at.get("pcie_generation", sample.at))
    return sample.at - oldest > OLD_SECONDS


def sentence(facts: AlertFacts) -> str:
    link = facts.finding.about
    if not isinstance(link, Link):
        return f"The PCIe link of {facts.it} is slow under load"
    parts = [f"has {link.width} of {link.widest} lanes"] if link.width < link.widest else []
    if link.generation < link.fastest:
        parts.append(f"runs at generation {link.generation} of {link.fastest}")
    lost = percent(facts.finding.value)
    return f"The PCIe link of {facts.it} {' and '.join(parts)} under load: {lost} of its speed lost"


def _lost_now(status: DeviceStatus | None, snapshot: Snapshot) -> float | None:
    sample = status.sample if status is not None and status.answered else None
    if status is None or sample is None:
        return None
    link = _link(sample, status.device.limits)
    return None if link is None else link.lost_percent


def evidence(found: Finding) -> Mapping[str, float | str]:
    link = found.about
    return link._asdict() if isinstance(link, Link) else {}


def explain(view: View) -> Reason | None:
    """The link is narrower or slower than card and slot allow, while busy."""
    width, generation = _short(view, "width"), _short(view, "generation")
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
    """The link and what is allowed, if it is below that and was read while the device was busy."""
    now, limits = view.read(f"pcie_{name}"), view.status.device.limits
    value, most = getattr(view.sample, f"pcie_{name}"), getattr(limits, f"link_{name}")
    if now is None or most is None or value >= most:
        return None
    by_slot = most < getattr(limits, f"pcie_{name}")
    stated = view.limit(f"pcie_slot_{name}" if by_slot else f"pcie_{name}")
    return (now, stated) if stated is not None and _worked_at(view, now.at) else None


def _worked_at(view: View, at: float | None) -> bool:
    """Whether the device is busy now and was at the reading: an idle card slows its link."""
    before = [s.sample for s in view.past if s.sample is not None and s.sample.at <= (at or 0.0)]
    then = before[-1].utilization_percent if before else None
    now_works = view.at_least("utilization_percent", LINKED_PERCENT)
    return now_works and then is not None and then >= LINKED_PERCENT


def explain_slot(view: View) -> Reason | None:
    """The slot allows less than the card: no fault, but worth knowing."""
    width, generation = _slotted(view, "width"), _slotted(view, "generation")
    lanes = say("{s} of its {c} lanes", s=width[0], c=width[1]) if width else Clause()
    speed = Clause()
    if generation:
        speed = say("PCIe generation {s} of {c}", s=generation[0], c=generation[1])
    if not lanes and not speed:
        return None
    text = Clause("Its slot offers ") + listed([lanes, speed])
    return conclude(NARROW_SLOT, CERTAIN, text, advice=SLOT_ADVICE)


def _slotted(view: View, name: str) -> tuple[Evidence, Evidence] | None:
    """What slot and card support, if the slot supports less; a virtual slot may state anything."""
    limits, now = view.status.device.limits, getattr(view.sample, f"pcie_{name}")
    slot, own = getattr(limits, f"pcie_slot_{name}"), getattr(limits, f"pcie_{name}")
    if now is None or slot is None or own is None or slot >= own or now > slot:
        return None
    offered, supported = view.limit(f"pcie_slot_{name}"), view.limit(f"pcie_{name}")
    return None if offered is None or supported is None else (offered, supported)


def _below(name: str, t: PromTerms) -> str:
    now, own = t.m(f"gpu_pcie_{name}"), t.m(f"gpu_pcie_{name}_limit")
    slot = t.m(f"gpu_pcie_slot_{name}_limit")
    works = f"{t.m('gpu_utilization_percent')} >= {LINKED_PERCENT}"
    return f"{now} < {own} and {now} < ({slot} or {own}) and {works}"


CONDITION = Condition(
    name="narrow_link",
    title="Slow PCIe link",
    why="Data takes longer to reach the device: a badly seated card, a riser or the firmware "
    "limits its lanes or speed. It is judged under load, because an idle card slows "
    "its link.",
    advice=ADVICE,
    judged=OnReading(judge),
    lit_if=triggers.narrow,
    rungs=(
        Rung(
            INFO,
            "in use, and its PCIe link runs at a lower generation than card and slot support",
            300, "it does not, under load", 120, notify=False, for_figure=SECONDS.name,
        ),
        Rung(
            WARNING,
            "in use, and its PCIe link has fewer lanes than card and slot support",
            300, "it does not, under load", 120, for_figure=SECONDS.name,
        ),
    ),
    label="slow link",
    headline="has a narrow PCIe link",
    sentence=sentence,
    recovered=was("on a slow PCIe link", "% of its speed lost"),
    measure=_lost_now,
    evidence=evidence,
    figures=(SECONDS,),
    unit="percent",
    weight=7,
    reasons=(Explanation(explain, (NARROW_LINK,)), Explanation(explain_slot, (NARROW_SLOT,))),
    promql=(lambda t, fires: _below("generation", t), lambda t, fires: _below("width", t)),
)  # fmt: skip
