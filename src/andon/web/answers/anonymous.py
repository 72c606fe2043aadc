"""What callers without the token do not see."""

from collections.abc import Sequence
from dataclasses import replace

from andon.model.device import DeviceStatus, Process, Snapshot

HIDDEN = "shown to callers with the token"


def for_anonymous(snapshot: Snapshot) -> Snapshot:
    """Without command lines: callers without the token see only program names."""
    return replace(snapshot, devices=tuple(map(_without_commands, snapshot.devices)))


def all_for_anonymous(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    return [for_anonymous(snapshot) for snapshot in snapshots]


def _without_commands(status: DeviceStatus) -> DeviceStatus:
    if all(process.command is None for process in status.processes):
        return status
    return replace(
        status,
        processes=without_commands(status.processes),
        missing={**status.missing, "command": HIDDEN},
    )


def without_commands(processes: Sequence[Process]) -> tuple[Process, ...]:
    return tuple(replace(process, command=None) for process in processes)
