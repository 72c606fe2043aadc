"""Snapshots for the history, beside the readings that andon ships."""

from andon.model.device import Device, DeviceStatus, Process, Sample, Snapshot, State
from andon.testing.history import AT as AT
from andon.testing.history import GPU as GPU
from andon.testing.history import status as status
from andon.testing.history import tick as tick
from andon.testing.history import upkeep as upkeep


def snapshot(at: float, *processes: Process, state: State = State.OK, **values: object) -> Snapshot:
    sample = Sample(at, **values)  # type: ignore[arg-type]
    device = Device("GPU-1", 0, "nvidia", "H200")
    return Snapshot(
        "n", at, devices=(DeviceStatus(device, state, 0.0, sample=sample, processes=processes),)
    )
