"""The PCIe link of a busy device is narrower or slower than card and slot allow.

An idle card slows its link, so it is judged under load only. It is read every few seconds and not
at every sample, so a reading may be from just before the load: five minutes of load outlast that.
"""

from typing import Final, NamedTuple

from andon.explain.conditions import triggers
from andon.explain.conditions.condition import (
    INFO,
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, HOLDS, UNKNOWN, Finding, Rungs
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.conditions.recovery import was
from andon.explain.evidence.phrasing import listed, say
from andon.explain.evidence.reasons import Evidence, ReasonKind
from andon.explain.evidence.view import View
from andon.model.device import Limits, Sample
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
ADVICE = "Reseat the card; check the riser and the slot's lanes in the firmware settings."
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
    found = _judged(sample, limits)
    return found if _worked_then(seen) else UNKNOWN


def _judged(sample: Sample, limits: Limits) -> Finding | None:
    """Judges a link below what the card supports: so is the slot, or something is wrong."""
    link = _link(sample, limits)
    if link is None:
        return UNKNOWN
    narrow, slow = link.width < link.widest, link.generation < link.fastest
    if not narrow and not slow:
        return None
    busy = sample.utilization_percent
    if busy is None or busy < LINKED_PERCENT or sample.at - _read_at(sample) > OLD_SECONDS:
        return UNKNOWN
    rungs = (_BOTH if slow else _NARROW) if narrow else _SLOW
    return Finding(rungs, link.lost_percent, about=link)


def _link(sample: Sample, limits: Limits) -> Link | None:
    found = sample.pcie_width, limits.link_width, sample.pcie_generation, limits.link_generation
    if not all(found):
        return None
    width, widest, generation, fastest = found
    return Link(width or 0, widest or 0, generation or 0, fastest or 0)


def _read_at(sample: Sample) -> float:
    """When the older one of the two readings was taken."""
    read_at = sample.read_at
    return min(read_at.get("pcie_width", sample.at), read_at.get("pcie_generation", sample.at))


def _worked_then(seen: View) -> bool:
    """Whether it was busy when the link was read, as far as its past is known."""
    at = _read_at(seen.sample)
    then = [s.sample for s in seen.past if s.sample is not None and s.sample.at <= at]
    return not seen.past or any(
        (one.utilization_percent or 0) >= LINKED_PERCENT for one in then[-1:]
    )


def describe(facts: ConditionFacts) -> Description:
    """What the link has of what card and slot allow, and what that costs."""
    link: Link = facts.finding.about
    view = facts.device
    width, generation = link.width < link.widest, link.generation < link.fastest
    parts = (
        say("has {now} of {most} lanes", **_part(view, "width", link.width, link.widest, width)),
        say("runs at generation {now} of {most}",
            **_part(view, "generation", link.generation, link.fastest, generation)),
    )  # fmt: skip
    text = say("The PCIe link of {it} ", facts.it) + listed(parts)
    text += say(" under load: {lost} of its speed lost", lost=facts.value("speed_lost_percent"))
    return Description(text, [view.read("utilization_percent")])


def _part(view: View, name: str, now: int, most: int, is_short: bool) -> dict[str, Evidence | None]:
    """What the link has, and what card and slot allow, as the one states it that allows less."""
    own = getattr(view.device.limits, f"pcie_{name}") == most
    found = Evidence(f"pcie_{name}", now) if is_short else None
    return {"now": found, "most": Evidence(f"limits.pcie_{'' if own else 'slot_'}{name}", most)}


def _lost_now(view: View) -> float | None:
    link = _link(view.sample, view.device.limits)
    return None if link is None else link.lost_percent


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
    describe=describe,
    recovered=was("on a slow PCIe link", "% of its speed lost"),
    measure=_lost_now,
    figures=(SECONDS,),
    unit="percent",
    weight=7,
    kinds=(NARROW_LINK,),
    promql=(lambda t, fires: _below("generation", t), lambda t, fires: _below("width", t)),
)  # fmt: skip
