"""Each GPU of a node in a few words, short enough for a list of hundreds of nodes."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta

from andon.model.device import DeviceStatus
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.naming import device_labels
from andon.model.verdict import DeviceVerdict, VerdictKind

MOST = 64
STATES = ("free", "held", "idle", "used", "withheld", "troubled", "broken", "unknown")
GpuStateText = Annotated[
    str, Meta(pattern=rf"\A\S{{1,20}} ({'|'.join(STATES)}) (\d{{1,3}}|-) (\d{{1,3}}|-)\Z")
]
"""Label, state, utilisation and memory in percent, which are `-` where they are not known."""
_BY_KIND = {
    VerdictKind.FREE: "free",
    VerdictKind.HELD: "held",
    VerdictKind.IN_USE: "used",
    VerdictKind.WITHHELD: "withheld",
}


def gpu_states(
    statuses: Iterable[DeviceStatus],
    verdicts: Iterable[DeviceVerdict],
    lamps: Iterable[DeviceLamp],
    idle_rules: frozenset[str],
) -> tuple[str, ...]:
    """Returns `3 held 87 62` for each device that is not an instance of another."""
    statuses = list(statuses)
    labels = device_labels(statuses)
    known = {one.uuid: one for one in verdicts}
    lit = {one.uuid: one for one in lamps if one.is_troubled}
    return tuple(
        f"{labels[uuid]} {_state(status, known, lit, idle_rules)} {_load(status)} {_memory(status)}"
        for status in statuses[:MOST]
        if status.device.parent is None and (uuid := status.device.uuid)
    )


def _state(
    status: DeviceStatus,
    verdicts: Mapping[str, DeviceVerdict],
    lit: Mapping[str, DeviceLamp],
    idle_rules: frozenset[str],
) -> str:
    uuid = status.device.uuid
    lamp, verdict = lit.get(uuid), verdicts.get(uuid)
    if lamp is not None and lamp.rule not in idle_rules:
        return "broken" if lamp.lamp is Lamp.RED else "troubled"
    if verdict is None or not status.answered:
        return "unknown"
    idle = verdict.kind is VerdictKind.HELD and (lamp is not None or _load(status) == "0")
    return "idle" if idle else _BY_KIND[verdict.kind]


def _load(status: DeviceStatus) -> str:
    sample = status.sample if status.answered else None
    return _percent(None if sample is None else sample.utilization_percent)


def _memory(status: DeviceStatus) -> str:
    sample, total = status.sample if status.answered else None, status.device.memory_total_bytes
    used = None if sample is None else sample.memory_used_bytes
    return _percent(None if used is None or not total else 100.0 * used / total)


def _percent(value: float | None) -> str:
    return "-" if value is None else str(round(min(100.0, max(0.0, value))))
