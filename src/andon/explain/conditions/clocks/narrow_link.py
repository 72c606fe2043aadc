"""The PCIe link of a busy device is narrower or slower than card and slot allow.

An idle card slows its link, so it is judged under load only. It is read every few seconds and not
at every sample, so a reading may be from just before the load: five minutes of load outlast that.
"""

from typing import Final, NamedTuple

from andon.explain.conditions.condition import (
    INFO,
    WARNING,
    Condition,
    Rung,
)
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import CALM, HOLDS, NO_DATA, UNKNOWN, Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.promql import PromTerms
from andon.explain.evidence.phrasing import listed, phrase
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
_STATES: Final = {True: HOLDS, False: CALM, None: NO_DATA}


class Link(NamedTuple):
    """A link, and what card and slot allow; what is unknown is None."""

    width: int | None
    widest: int | None
    generation: int | None
    fastest: int | None

    @property
    def is_narrow(self) -> bool | None:
        return self.width < self.widest if self.width and self.widest else None

    @property
    def is_slow(self) -> bool | None:
        return self.generation < self.fastest if self.generation and self.fastest else None

    @property
    def lost_percent(self) -> float:
        """The missing share of its speed; each generation doubles that of the one before."""
        share = (self.width or 1) / (self.widest or 1) if self.is_narrow else 1.0
        if self.is_slow:
            share /= 2.0 ** ((self.fastest or 0) - (self.generation or 0))
        return 100.0 * (1 - share)


def judge(seen: View) -> Finding | None:
    """Judges the link of a busy device by what card and slot allow; an idle one is unknown."""
    sample, limits = seen.sample, seen.device.limits
    width, generation = sample.pcie_width, sample.pcie_generation
    if not width and not generation:
        return UNKNOWN
    if width and generation and (width, generation) == (limits.pcie_width, limits.pcie_generation):
        return None  # at full width and speed, as most links are at every tick
    link = _link(sample, limits)
    narrow, slow = link.is_narrow, link.is_slow
    if not narrow and not slow:
        return UNKNOWN if None in (narrow, slow) else None
    busy = sample.utilization_percent
    if busy is None or busy < LINKED_PERCENT or sample.at - _read_at(sample) > OLD_SECONDS:
        return UNKNOWN
    if not _worked_then(seen):
        return UNKNOWN
    return Finding((_STATES[slow], _STATES[narrow]), link.lost_percent, about=link)


def _link(sample: Sample, limits: Limits) -> Link:
    return Link(
        sample.pcie_width, limits.link_width, sample.pcie_generation, limits.link_generation
    )


def _read_at(sample: Sample) -> float:
    """Returns when the older of the two readings was taken."""
    read_at = sample.read_at
    return min(read_at.get("pcie_width", sample.at), read_at.get("pcie_generation", sample.at))


def _worked_then(seen: View) -> bool:
    """Whether it was busy when the link was read, as far as that is known."""
    at = _read_at(seen.sample)
    then = [s.sample for s in seen.past if s.sample is not None and s.sample.at <= at]
    return not seen.past or any(
        (one.utilization_percent or 0) >= LINKED_PERCENT for one in then[-1:]
    )


def describe(facts: ConditionFacts) -> Description:
    """What the link has of what card and slot allow, and what that costs."""
    link: Link = facts.finding.about
    view = facts.device
    parts = (
        phrase("has {now} of {most} lanes", **_part(view, "width", link.is_narrow)),
        phrase("runs at generation {now} of {most}", **_part(view, "generation", link.is_slow)),
    )
    text = phrase("The PCIe link of {it} ", facts.it) + listed(parts)
    text += phrase(" under load: {lost} of its speed lost", lost=facts.value("speed_lost_percent"))
    return Description(text, [view.read("utilization_percent")])


def _part(view: View, name: str, is_short: bool | None) -> dict[str, Evidence | None]:
    """Returns the link's value, and the maximum: the lower one of card and slot."""
    limits, field = view.device.limits, f"pcie_{name}"
    own = getattr(limits, field) == getattr(limits, f"link_{name}")
    allowed = view.limit(field if own else f"pcie_slot_{name}")
    return {"now": view.read(field) if is_short else None, "most": allowed}


def speed_lost_percent(view: View) -> float:
    """Returns the missing share of the link's speed."""
    return _link(view.sample, view.device.limits).lost_percent


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
    possible_if=("pcie_width < link_width",),
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
    measure=speed_lost_percent,
    figures=(SECONDS,),
    unit="percent",
    weight=7,
    kinds=(NARROW_LINK,),
    promql=(lambda t, fires: _below("generation", t), lambda t, fires: _below("width", t)),
)  # fmt: skip
