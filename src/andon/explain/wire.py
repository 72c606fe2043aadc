"""JSON of reasons, as `andon why --json` and REST give it: `andon.why/1`."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Struct

from andon.explain.conditions.catalogue import SHOWN_REASONS
from andon.explain.evidence.reasons import Reason
from andon.model.codec import written
from andon.model.device import Device
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.shapes import Doc, Member, names_of, plain, shape_of

WHY = "andon.why/1"


class ExplainedReason(Reason, frozen=True):
    """One explanation. The greater weight comes first; below TROUBLE_FROM nothing is wrong."""

    json_members = ("code", "sentence", "weight", "problem", "confidence", "confidence_label", ...)
    problem: Annotated[
        bool, Doc("whether it explains a lamp that is not green; else it is a hint")
    ] = False


def explained(reasons: Iterable[Reason], lamp: Lamp = Lamp.GREY) -> tuple[ExplainedReason, ...]:
    """Returns reasons as they are shown beside this lamp."""
    return tuple(
        ExplainedReason(
            **plain(one, names_of(Reason)),
            problem=lamp is not Lamp.GREEN and one.code in SHOWN_REASONS,
        )
        for one in reasons
    )


class ExplainedDevice(Struct, frozen=True):
    """The ranked reasons of one device."""

    uuid: str
    index: int
    name: str
    lamp: Lamp
    status: Annotated[str, Doc("the word under its lamp")]
    reasons: tuple[ExplainedReason, ...]

    @classmethod
    def of(cls, device: Device, reasons: Iterable[Reason], lamp: DeviceLamp) -> "ExplainedDevice":
        shown = explained(reasons, lamp.lamp)
        return cls(device.uuid, device.index, device.name, lamp.lamp, lamp.status, shown)


class Explained(Struct, frozen=True):
    """The reasons of some devices; `reasons` are the node's, if it has no device."""

    sampled_seconds: float
    devices: tuple[ExplainedDevice, ...]
    reasons: tuple[ExplainedReason, ...] = ()


REASON_SHAPE = shape_of(
    ExplainedReason,
    "Reason",
    more={"confidence_label": Member(str, "certain, likely or possible")},
    order=[name for name, _ in written(ExplainedReason)],
)
