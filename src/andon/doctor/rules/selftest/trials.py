"""The trials of the selftest, and the history of a device that they check."""

from collections.abc import Sequence

from msgspec import Struct

from andon.doctor.rules.findings import FindingName
from andon.model.device import Device, DeviceStatus, Sample, Snapshot
from andon.model.naming import titles

DOCTOR = "andon doctor"
REPORT = "andon status --json # and report it with this output"
SHOWN = 4  # devices with the same problem; the rest is counted


class SelftestTrial(FindingName):
    """Everything that `andon selftest` checks."""

    NO_DEVICE = "no_device", "devices"
    ANSWERS = "answers", "devices"
    IDENTITY = "identity", "devices"
    SHARES = "shares", "readings"
    MEMORY = "memory", "readings"
    PROCESSES = "processes", "readings"
    TEMPERATURE = "temperature", "readings"
    POWER = "power", "readings"
    ENERGY = "energy", "readings"
    CLOCKS = "clocks", "readings"
    LINK = "link", "readings"
    MOVEMENT = "movement", "readings"
    TIME = "time", "sampling"
    SNAPSHOTS = "snapshots", "sampling"
    COST = "cost", "sampling"
    LOAD = "load", "load"
    LOAD_UTILIZATION = "load_utilization", "load"
    LOAD_POWER = "load_power", "load"
    LOAD_SM_ACTIVE = "load_sm_active", "load"
    LOAD_PROCESS = "load_process", "load"


class Sampling(Struct, frozen=True):
    """Statistics of the sampling; the seconds are CPU time of all samples together."""

    snapshots: int = 0
    interval_seconds: float = 1.0
    missed: int = 0
    dropped: int = 0
    sampler_cpu_seconds: float = 0.0
    reader_cpu_seconds: float = 0.0


class History(Struct, frozen=True):
    """One device over all samples; `samples` are its valid answers."""

    label: str
    device: Device
    statuses: tuple[DeviceStatus, ...]
    divided: bool = False

    @property
    def answered(self) -> list[tuple[DeviceStatus, Sample]]:
        return [(s, s.sample) for s in self.statuses if s.answered and s.sample is not None]

    @property
    def samples(self) -> list[Sample]:
        return [sample for _, sample in self.answered]


def histories_of(snapshots: Sequence[Snapshot]) -> list[History]:
    found: dict[str, list[DeviceStatus]] = {}
    for snapshot in snapshots:
        for status in snapshot.devices:
            found.setdefault(status.device.uuid, []).append(status)
    names = titles(statuses[-1] for statuses in found.values())
    boards = {s.device.parent for statuses in found.values() for s in statuses}
    return [
        History(names[uuid], statuses[-1].device, tuple(statuses), uuid in boards)
        for uuid, statuses in found.items()
    ]
