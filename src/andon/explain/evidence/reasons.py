"""A reason: why a device is in its state, with evidence and what to do."""

from msgspec import Struct

from andon.model.device import Process


class ReasonKind(Struct, frozen=True):
    """A kind of reason: its code, what it means, and how much it weighs.

    From TROUBLE_FROM up it is a problem; below it is not, but it is listed first.
    """

    code: str
    means: str
    weight: float
    mild: float | None = None  # the weight of its milder form, if it has one


CERTAIN_FROM = 0.9
LIKELY_FROM = 0.6
TROUBLE_FROM = 20.0
"""Reasons of less weight are plain facts: the lamp stays green."""


class Evidence(Struct, frozen=True):
    """One reading, or a number derived from readings, that supports a reason."""

    name: str
    value: str | float | None  # None: it cannot be read, which is the evidence
    unit: str = ""
    at: float | None = None  # when it was read; None if it does not change


class Reason(Struct, frozen=True):
    """One explanation. The greater weight comes first; below TROUBLE_FROM nothing is wrong."""

    code: str
    weight: float
    confidence: float  # 0 to 1
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    process: Process | None = None  # who is blamed, if it is one
    blamed: str = ""  # if they are several: "7 processes of dora, caroline and bob"
    advice: str = ""

    @property
    def is_trouble(self) -> bool:
        return self.weight >= TROUBLE_FROM

    @property
    def confidence_label(self) -> str:
        """The confidence as a word."""
        if self.confidence >= CERTAIN_FROM:
            return "certain"
        return "likely" if self.confidence >= LIKELY_FROM else "possible"
