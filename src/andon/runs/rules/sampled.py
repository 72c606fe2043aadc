"""The lines of a record that are made from snapshots: its devices, its samples."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from andon.leases.rules.eligibility import score
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.progress import WorkProgress
from andon.model.naming import device_labels
from andon.model.run.record import SAMPLED, RunCandidate, RunDevice, RunSample
from andon.units import MIB

_PLAIN = tuple(name for name in SAMPLED if name != "energy_joules")


def run_devices(snapshot: Snapshot, uuids: Iterable[str]) -> tuple[RunDevice, ...]:
    """Returns the devices of a run, in the order given."""
    labels = device_labels(snapshot.devices)
    statuses = {status.device.uuid: status for status in snapshot.devices}
    return tuple(_device(statuses[uuid], labels) for uuid in uuids if uuid in statuses)


def _device(status: DeviceStatus, labels: Mapping[str, str]) -> RunDevice:
    device = status.device
    return RunDevice(
        uuid=device.uuid,
        index=device.index,
        label=labels.get(device.uuid) or str(device.index),
        name=device.name,
        memory_total_bytes=device.memory_total_bytes,
        power_limit_watts=status.sample.power_limit_watts if status.sample else None,
    )


def run_candidates(
    statuses: Iterable[DeviceStatus], memory_weight: float, utilization_weight: float
) -> tuple[RunCandidate, ...]:
    """Returns the present devices as the candidates of a run whose devices were not chosen."""
    return tuple(_candidate(status, memory_weight, utilization_weight) for status in statuses)


def _candidate(
    status: DeviceStatus, memory_weight: float, utilization_weight: float
) -> RunCandidate:
    device, sample = status.device, status.sample if status.answered else None
    free = None if sample is None else sample.memory_free_bytes
    busy = None if sample is None else sample.utilization_percent
    rated = score(free, device.memory_total_bytes, busy, memory_weight, utilization_weight)
    return RunCandidate(
        index=device.index,
        name=device.name,
        memory_free_mb=None if free is None else round(free / MIB, 1),
        utilization_percent=busy,
        availability_score=None if rated is None else round(rated, 4),
        uuid=device.uuid,
    )


def sample_line(
    snapshot: Snapshot, uuids: Collection[str], progress: WorkProgress | None = None
) -> RunSample:
    """Returns a line with these devices alone, and how far the program is."""
    mine = [status for status in snapshot.devices if status.device.uuid in uuids]
    cpu = snapshot.host.cpu_percent
    return RunSample(
        at=snapshot.at,
        devices={status.device.uuid: _readings(status) for status in mine},
        cpu_percent=cpu,
        progress=progress,
    )


def _readings(status: DeviceStatus) -> dict[str, Any]:
    """Returns the readings, without an energy counter that is older than they are."""
    sample = status.sample
    out: dict[str, Any] = {"state": str(status.state)}
    if sample is None or not status.answered:
        return out
    out |= {name: getattr(sample, name) for name in _PLAIN}
    fresh = "energy_joules" not in sample.read_at
    out["energy_joules"] = sample.energy_joules if fresh else None
    return out
