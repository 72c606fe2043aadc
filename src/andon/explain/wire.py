"""JSON of reasons, as `andon why --json` and REST give it: `andon.why/1`."""

from typing import Annotated

from msgspec import Struct

from andon.explain.conditions.catalogue import SHOWN_REASONS
from andon.explain.evidence.reasons import Evidence, Reason
from andon.model.device import Device
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.shapes import Doc, Member, names_of, plain, shape_of, to_json
from andon.model.wire import Json

WHY = "andon.why/1"


class ExplainedDevice(Struct, frozen=True):
    """The ranked reasons of one device."""

    uuid: str
    index: int
    name: str
    lamp: Lamp
    status: Annotated[str, Doc("the word under its lamp")]
    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, device: Device, reasons: tuple[Reason, ...], lamp: DeviceLamp) -> "ExplainedDevice":
        return cls(device.uuid, device.index, device.name, lamp.lamp, lamp.status, reasons)


class Explained(Struct, frozen=True):
    """The reasons of some devices; `reasons` are the node's, if it has no device."""

    sampled_seconds: float
    devices: tuple[ExplainedDevice, ...]
    reasons: tuple[Reason, ...] = ()


REASON_SHAPE = shape_of(
    Reason,
    more={
        "problem": Member(bool, "whether it explains a lamp that is not green; else it is a hint"),
        "confidence_label": Member(str, "certain, likely or possible"),
    },
    order=(
        "code", "sentence", "weight", "problem", "confidence", "confidence_label", "evidence",
        "process", "blamed", "advice",
    ),
)  # fmt: skip
_EVIDENCE, _EXPLAINED = names_of(Evidence), names_of(ExplainedDevice)
_REASON = tuple(name for name in REASON_SHAPE.members if name != "problem")


def explained_to_json(found: Explained) -> Json:
    return {
        "sampled_seconds": round(found.sampled_seconds, 3),
        "devices": [
            {
                **plain(one, _EXPLAINED),
                "reasons": [reason_to_json(r, one.lamp) for r in one.reasons],
            }
            for one in found.devices
        ],
        "reasons": [reason_to_json(reason, Lamp.GREY) for reason in found.reasons],
    }


def reason_to_json(reason: Reason, lamp: Lamp) -> Json:
    values = {**dict.fromkeys(REASON_SHAPE.members), **plain(reason, _REASON)}
    values["problem"] = lamp is not Lamp.GREEN and reason.code in SHOWN_REASONS
    values["evidence"] = [plain(one, _EVIDENCE) for one in reason.evidence]
    values["process"] = to_json(reason.process)
    return values
