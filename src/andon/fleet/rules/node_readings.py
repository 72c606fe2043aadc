"""Adds a hub's readings to a cluster's node: how busy it is, and who leaves its GPUs idle."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from msgspec.structs import replace

from andon.explain.conditions.sharing.idle_lease import SECONDS
from andon.fleet.rules.states import NodeRow
from andon.history.rules.series import Bucket
from andon.jobs.rules.shortage import holder_text, idle_text
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.cluster import ClusterNode, GpuHolder
from andon.model.utilisation import ZERO_READING
from andon.units import human_seconds

NO_READINGS: Final = "no andon reports this node's readings"
NOT_REPORTED: Final = "it does not report it"
_VALUES: Final = ("utilization_percent", "memory_percent", "temperature_celsius")
MOST_HOLDERS: Final = 6
_RAY: Final = "ray:"


class NodeDevices(NamedTuple):
    """A node's devices, and for how long each has been idle, by uuid; None if unknown."""

    snapshot: Snapshot
    idle: Mapping[str, float | None]
    now: float


def with_reading(
    node: ClusterNode,
    row: NodeRow | None,
    devices: NodeDevices | None = None,
) -> ClusterNode:
    """Returns a node with andon's readings, which are preferred to those of its cluster; without
    any, with the reason."""
    if row is None or not row.heard:
        age = None if row is None else row.age_seconds
        why = NO_READINGS if age is None else f"its last reading is {human_seconds(age)} old"
        return _shown(node, why)
    models = list(row.models)
    found = replace(
        node,
        model=models[0] if len(models) == 1 else node.model,
        utilization_percent=_percent(row.utilization_percent, node.utilization_percent),
        memory_percent=_percent(row.memory_percent, node.memory_percent),
        temperature_celsius=_whole(row.temperature_celsius, node.temperature_celsius),
        note="; ".join(filter(None, (node.note, row.reason))) or None,
        read_by=None if node.busy is None else node.read_by,
    )
    if devices is not None:
        found = _with_devices(found, devices)
    return _shown(found, NOT_REPORTED)


def _with_devices(node: ClusterNode, devices: NodeDevices) -> ClusterNode:
    every = devices.snapshot.devices
    read = [one.sample for one in every if one.answered and one.sample is not None]
    heats = [one.temperature_celsius for one in read if one.temperature_celsius is not None]
    loads = [one.utilization_percent for one in read if one.utilization_percent is not None]
    return replace(
        node,
        temperature_celsius=int(max(heats)) if heats else None,
        busy=sum(load > ZERO_READING for load in loads),
        read_by=None,
        holders=holders_of(node, devices),
    )


def _shown(node: ClusterNode, why: str) -> ClusterNode:
    """Returns the node with its GPUs' holders as text, and why values are missing."""
    names = _VALUES if node.who is None else (*_VALUES[:2], "busy")
    missing = {name: why for name in names if getattr(node, name) is None}
    if node.who is not None:
        who = ", ".join(map(holder_text, node.holders[:MOST_HOLDERS]))
        return replace(node, who=who, missing=missing)
    note = "; ".join(filter(None, (node.note, idle_text(node))))
    return replace(node, note=note or None, missing=missing)


def holders_of(node: ClusterNode, devices: NodeDevices) -> tuple[GpuHolder, ...]:
    """Returns the holders of GPUs, each with the number that it leaves idle and for how long. A
    holder without a process idles too, unless some work on the node cannot be attributed. That time
    counts at most since it got the GPUs."""
    snapshot, idle, now = devices
    holders = (*node.holders, *(_tasks(node, snapshot) if node.who is not None else ()))
    on = [(status, _found_on(status, holders)) for status in snapshot.devices]
    working = Counter(name for status, names in on if load_of(status) for name in names)
    strange = any(load_of(status) and not names for status, names in on)
    found = list[GpuHolder]()
    for holder in holders:
        own = [status for status, names in on if holder.name in names]
        still = idle_devices(own if strange else snapshot.devices)
        left = min(holder.gpus - working[holder.name], len(still))
        lasted = _lasted([idle.get(one.device.uuid) for one in still], holder, own, now)
        if left <= 0 or lasted is None or lasted < SECONDS.default:
            left, lasted = 0, None
        numbers = tuple(one.device.index for one in own)
        found.append(replace(holder, devices=numbers, idle_gpus=left, idle_seconds=lasted))
    return tuple(found)


def _lasted(
    seconds: Sequence[float | None], holder: GpuHolder, own: Sequence[DeviceStatus], now: float
) -> float | None:
    known = [one for one in seconds if one is not None]
    if not known or len(known) < len(seconds):
        return None
    began = [p.started for one in own for p in one.processes if p.started and _is_of(holder, p.job)]
    since = min(began, default=-inf) if holder.since is None else holder.since
    return max(0.0, min(*known, now - since))


def _tasks(node: ClusterNode, snapshot: Snapshot) -> list[GpuHolder]:
    """Returns the tasks of Ray programs that are no jobs, by the marks of their processes."""
    counts = Counter[str]()
    for status in snapshot.devices:
        counts.update({one.job for one in status.processes if one.job and one.job.startswith(_RAY)})
    return [
        GpuHolder(job.removeprefix(_RAY), gpus)
        for job, gpus in counts.items()
        if not any(_is_of(one, job) for one in node.holders)
    ]


def _found_on(status: DeviceStatus, holders: Sequence[GpuHolder]) -> set[str]:
    """Returns whose processes are on a device; if none has a mark, whom the node gave it to."""
    marks = [mark for one in status.processes for mark in (one.job, one.container) if mark]
    marks = marks or [f"k8s:{one}" for one in status.pods]
    return {one.name for one in holders if any(_is_of(one, mark) for mark in marks)}


def _is_of(holder: GpuHolder, mark: str | None) -> bool:
    """Whether a mark names it: `slurm:4711.0`, `ray:andon-zz81xk`, `k8s:team-a/notebook-7/main`."""
    word = (mark or "").partition(":")[2]
    names = [name for name in (holder.name, holder.alias) if name]
    return any(word == name or word.startswith((f"{name}/", f"{name}.")) for name in names)


def idle_devices(devices: Sequence[DeviceStatus]) -> list[DeviceStatus]:
    """Returns the devices on which nothing runs."""
    return [one for one in devices if load_of(one) == 0]


def load_of(status: DeviceStatus) -> float | None:
    """Returns the utilisation of a whole device; None for a part of one, or if unknown."""
    whole = status.device.parent is None and status.answered
    return status.sample.utilization_percent if whole and status.sample is not None else None


def idle_seconds(buckets: Sequence[Bucket], now: float) -> float | None:
    """Returns for how long nothing has run; None if unknown."""
    known = [one for one in buckets if one.count]
    if not known:
        return None
    busy = [one.until for one in known if one.max]
    return max(0.0, now - (max(busy) if busy else known[0].since))


def _whole(value: float | None, otherwise: int | None) -> int | None:
    return otherwise if value is None else int(value)


def _percent(value: float | None, otherwise: float | None) -> float | None:
    return otherwise if value is None else min(100.0, max(0.0, value))
