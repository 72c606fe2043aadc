"""What a hub's rows and snapshots say about a node: how busy it is, and which pods leave GPUs
idle."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from andon.clusters.kubernetes.rules.rooms import NodeLook
from andon.fleet.rules.states import NodeRow
from andon.history.rules.series import Bucket
from andon.model.device import DeviceStatus, Snapshot

POD: Final = "k8s:"
IDLE_SPAN_SECONDS: Final = 86_400.0
"""How far back a GPU's last work is looked for."""


def look_of(row: NodeRow) -> NodeLook:
    """Returns what the list of a hub says of a node."""
    models = list(row.models)
    return NodeLook(
        row.age_seconds or 0.0,
        row.utilization_percent,
        row.memory_percent,
        model=models[0] if len(models) == 1 else None,
        idle_gpus=row.idle,
        trouble=row.reason if row.heard else None,
    )


def idle_devices(snapshot: Snapshot) -> list[DeviceStatus]:
    """Returns the devices that a pod holds and on which nothing runs."""
    return [
        one
        for one in snapshot.devices
        if one.device.parent is None
        and one.answered
        and one.sample is not None
        and one.sample.utilization_percent == 0
        and _pods(one)
    ]


def detailed(
    look: NodeLook, snapshot: Snapshot, histories: Mapping[str, Sequence[Bucket]], now: float
) -> NodeLook:
    """Returns the look with its hottest device, and the pods that leave devices idle; each is idle
    since its last bucket with work, and they together as long as the last of them."""
    heats = [
        one.sample.temperature_celsius
        for one in snapshot.devices
        if one.answered and one.sample is not None and one.sample.temperature_celsius is not None
    ]
    idle = idle_devices(snapshot)
    lasted = [idle_seconds(histories.get(one.device.uuid, ()), now) for one in idle]
    known = [one for one in lasted if one is not None]
    return replace(
        look,
        temperature_celsius=int(max(heats)) if heats else None,
        idle_gpus=len(idle),
        idle_seconds=min(known) if known and len(known) == len(idle) else None,
        idle_pods=tuple(dict.fromkeys(pod for one in idle for pod in _pods(one))),
    )


def idle_seconds(buckets: Sequence[Bucket], now: float) -> float | None:
    """Returns for how long nothing ran; None if that is not known."""
    known = [one for one in buckets if one.count]
    if not known:
        return None
    busy = [one.until for one in known if one.max]
    return max(0.0, now - (max(busy) if busy else known[0].since))


def _pods(status: DeviceStatus) -> list[str]:
    """Returns `team-a/notebook-7` for each pod that has a process on a device."""
    names = [one.container for one in status.processes if one.container]
    words = [name.removeprefix(POD).split("/") for name in names if name.startswith(POD)]
    return list(dict.fromkeys("/".join(parts[:2]) for parts in words if len(parts) > 1))
