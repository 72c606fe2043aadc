"""What a hub's rows and snapshots say about a node: how busy it is, and which pods leave GPUs
idle."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from andon.clusters.kubernetes.rules.rooms import NodeLook, Room
from andon.clusters.rules.idle import idle_devices, idle_seconds, load_of
from andon.fleet.rules.states import NodeRow
from andon.history.rules.series import Bucket
from andon.model.device import DeviceStatus, Snapshot

POD: Final = "k8s:"


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


def detailed(
    look: NodeLook,
    snapshot: Snapshot,
    histories: Mapping[str, Sequence[Bucket]],
    room: Room,
    now: float,
) -> NodeLook:
    """Returns the look with its hottest device, and the pods that leave GPUs idle: those that ask
    for more than work for them. A pod without a process is found too, unless some of the work on
    the node is nobody's. They are idle for as long as the device that worked last."""
    heats = [
        one.sample.temperature_celsius
        for one in snapshot.devices
        if one.answered and one.sample is not None and one.sample.temperature_celsius is not None
    ]
    working, unknown = Counter[str](), 0
    for one in snapshot.devices:
        if load_of(one):
            pods = _pods(one, room)
            working.update(pods)
            unknown += not pods
    idle = idle_devices(snapshot)
    left = {pod: count - working[pod] for pod, count in room.holders.items()}
    lasted = [idle_seconds(histories.get(one.device.uuid, ()), now) for one in idle]
    known = [one for one in lasted if one is not None]
    return replace(
        look,
        temperature_celsius=int(max(heats)) if heats else None,
        idle_gpus=max(0, min(len(idle), sum(one for one in left.values() if one > 0) - unknown)),
        idle_seconds=min(known) if known and len(known) == len(idle) else None,
        idle_pods=() if unknown else tuple(pod for pod, count in left.items() if count > 0),
    )


def _pods(status: DeviceStatus, room: Room) -> set[str]:
    """Returns the pods of this node that have a process on a device, by name or uid; where no
    process has one, those that the kubelet gave it to."""
    names = [one.container for one in status.processes if one.container]
    names = names or [f"{POD}{one}" for one in status.pods]
    words = [name.removeprefix(POD).split("/") for name in names if name.startswith(POD)]
    found = {room.uids.get(parts[0], "/".join(parts[:2])) for parts in words}
    return found & set(room.holders)
