"""JSON of reasons, as `andon why --json` and REST give it: `andon.why/1`."""

from dataclasses import dataclass

from andon.core.evidence.reasons import Evidence, Reason
from andon.model.device import Device
from andon.model.shapes import Member, names_of, plain, shape_of
from andon.model.wire import Json, process_to_json

WHY = "andon.why/1"


@dataclass(frozen=True, slots=True)
class ExplainedDevice:
    """The ranked reasons of one device."""

    uuid: str
    index: int
    name: str
    reasons: tuple[Reason, ...]

    @classmethod
    def of(cls, device: Device, reasons: tuple[Reason, ...]) -> "ExplainedDevice":
        return cls(device.uuid, device.index, device.name, reasons)


@dataclass(frozen=True, slots=True)
class Explained:
    """The reasons of some devices; `reasons` are the node's, if it has no device."""

    sampled_seconds: float
    devices: tuple[ExplainedDevice, ...]
    reasons: tuple[Reason, ...] = ()


REASON_SHAPE = shape_of(
    Reason,
    more={
        "problem": Member(bool, "whether something is wrong"),
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
            {**plain(one, _EXPLAINED), "reasons": [reason_to_json(r) for r in one.reasons]}
            for one in found.devices
        ],
        "reasons": [reason_to_json(reason) for reason in found.reasons],
    }


def reason_to_json(reason: Reason) -> Json:
    values = {**dict.fromkeys(REASON_SHAPE.members), **plain(reason, _REASON)}
    values["problem"] = reason.is_trouble
    values["evidence"] = [plain(one, _EVIDENCE) for one in reason.evidence]
    values["process"] = None if reason.process is None else process_to_json(reason.process)
    return values
