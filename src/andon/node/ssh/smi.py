"""Parses the report of nvidia-smi on a host into a snapshot."""

from andon.drivers.nvidia_smi import cards, document
from andon.errors import Unavailable
from andon.leases.rules.verdict import by_readings
from andon.model.device import MOST_DEVICES, DeviceStatus, Snapshot
from andon.model.verdict import DeviceVerdict


def snapshot_from_smi(
    report: bytes, host: str, at: float
) -> tuple[Snapshot, tuple[DeviceVerdict, ...]]:
    """Returns the devices, and verdicts by their readings alone."""
    found = document.parse(report.decode(errors="replace"))
    if found is None or not found.gpus:
        reason = f"nvidia-smi there prints no report of 1 to {MOST_DEVICES} devices"
        raise Unavailable(reason, cause="ssh")
    memory = cards.SystemMemory()
    boards = cards.recognise(found, (), {}, memory, {})
    devices = {d.uuid: d for b in boards for d in (b.device, *(part for _, part in b.parts))}
    statuses = tuple(
        DeviceStatus(
            devices[one.uuid], one.state, at, one.reason, one.hint,
            sample=one.sample, missing=one.missing, processes=one.processes,
        )
        for one in cards.readings(boards, memory, at)
        if one.uuid in devices
    )  # fmt: skip
    return Snapshot(host, at, versions=found.versions, devices=statuses), by_readings(statuses)
