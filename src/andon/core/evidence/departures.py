"""The processes that were on a device before, and which of them are known to have ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from andon.core.evidence.accounting import unattributed_bytes
from andon.core.history.intervals import UsageInterval
from andon.model.device import DeviceStatus, Process, Snapshot

Identity = tuple[int, float | None]
"""A pid, and when that process was started."""


@dataclass(frozen=True, slots=True)
class Departures:
    """From the history, beyond the snapshots at hand; a process that is not known to have ended
    may have left one device only."""

    uses: Mapping[str, tuple[UsageInterval, ...]] = field(default_factory=dict)
    exited: frozenset[Identity] = frozenset()


NOTHING_KNOWN = Departures()


@dataclass(frozen=True, slots=True)
class Departed:
    """A process that is no longer on the device, and when it last was."""

    process: Process
    last: float
    exited: bool


def departed(
    now: DeviceStatus, past: Iterable[DeviceStatus], known: Departures = NOTHING_KNOWN
) -> list[Departed]:
    """All that were on the device and are not now; the latest one last."""
    found: dict[Identity, tuple[Process, float]] = {}
    for use in known.uses.get(now.device.uuid, ()):
        one = Process(use.pid, started=use.started, name=use.name, user=use.user,
                      memory_bytes=use.peak_memory_bytes)  # fmt: skip
        _add(found, one, use.last)
    for status in past:
        if status.sample is not None:
            for process in status.processes:
                _add(found, process, status.sample.at)
    here = {(process.pid, process.started) for process in now.processes}
    gone = [
        Departed(process, last, identity in known.exited)
        for identity, (process, last) in found.items()
        if identity not in here
    ]
    return sorted(gone, key=lambda one: one.last)


def _add(found: dict[Identity, tuple[Process, float]], process: Process, last: float) -> None:
    """A driver lists a dead process for a moment, when nothing is known of it but its pid: that is
    the one which had the pid before."""
    if process.started is None:
        process = next((one for one, _ in found.values() if one.pid == process.pid), process)
    found[(process.pid, process.started)] = process, last


def has_unexplained(snapshot: Snapshot) -> tuple[str, ...]:
    """The devices with memory that no visible process accounts for."""
    boards = {status.device.parent for status in snapshot.devices}
    return tuple(
        status.device.uuid
        for status in snapshot.devices
        if unattributed_bytes(status, status.device.uuid in boards)
    )
