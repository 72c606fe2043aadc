"""The processes that were on a device before, and which of them are known to have ended."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from andon.errors import AndonError
from andon.explain.evidence.blame import unattributed_bytes
from andon.model.device import DeviceStatus, Process, Snapshot

if TYPE_CHECKING:  # of the history, which most commands do not read
    from andon.history.rules.intervals import UsageInterval

REMEMBERED_SECONDS = 86_400.0
MOST = 100  # processes of one device: the latest
Identity = tuple[int, float | None]
"""A pid, and when that process was started."""
Usage = Callable[[str, float, float], "Sequence[UsageInterval]"]
"""A device's intervals between two times."""
Exited = Callable[[Iterable[Process]], frozenset[Identity]]
"""Returns which of these processes have certainly ended."""


class EndedProcesses(Struct, frozen=True):
    """Processes that left, from the history before the given snapshots; one that is not known to
    have ended may have left only one device."""

    uses: "Mapping[str, tuple[UsageInterval, ...]]" = field(default_factory=dict)
    exited: frozenset[Identity] = frozenset()


NOTHING_KNOWN = EndedProcesses()


class EndedProcess(Struct, frozen=True):
    """A process that is no longer on the device, and when it last was."""

    process: Process
    last: float
    exited: bool


def departed(
    now: DeviceStatus, past: Iterable[DeviceStatus], known: EndedProcesses = NOTHING_KNOWN
) -> list[EndedProcess]:
    """Returns all processes that were on the device and are not now; the latest one last."""
    found: dict[Identity, tuple[Process, float]] = {}
    for use in known.uses.get(now.device.uuid, ()):
        one = Process(use.pid, started=use.started, name=use.name, user=use.user,
                      memory_bytes=use.peak_memory_bytes)  # fmt: skip
        _add(found, one, use.last)
    for status in past:
        if status.sample is not None:
            for process in status.processes:
                _add(found, process, status.sample.at)
    present = {(process.pid, process.started) for process in now.processes}
    gone = [
        EndedProcess(process, last, identity in known.exited)
        for identity, (process, last) in found.items()
        if identity not in present
    ]
    return sorted(gone, key=lambda one: one.last)


def _add(found: dict[Identity, tuple[Process, float]], process: Process, last: float) -> None:
    """Adds a process. A dead one that the driver lists for a moment with nothing but its pid counts
    as the process that had the pid before."""
    if process.started is None:
        process = next((one for one, _ in found.values() if one.pid == process.pid), process)
    found[(process.pid, process.started)] = process, last


def has_unexplained(snapshot: Snapshot) -> tuple[str, ...]:
    """Returns the devices with memory that no visible process accounts for."""
    boards = {status.device.parent for status in snapshot.devices}
    return tuple(
        status.device.uuid
        for status in snapshot.devices
        if unattributed_bytes(status, status.device.uuid in boards)
    )


def departures(
    snapshots: Sequence[Snapshot], usage: Usage | None, exited: Exited | None
) -> EndedProcesses:
    """Returns the processes that left devices with memory that no process accounts for; others
    are not looked up.

    `exited` returns which processes have certainly ended; None for those of another machine.
    """
    latest = snapshots[-1]
    if not (wanted := has_unexplained(latest)):
        return NOTHING_KNOWN
    uses = {uuid: _used(usage, uuid, latest.at) for uuid in wanted} if usage else {}
    known = EndedProcesses(uses)
    if exited is None:
        return known
    past: dict[str, list[DeviceStatus]] = {uuid: [] for uuid in wanted}
    for status in (status for snapshot in snapshots for status in snapshot.devices):
        past.get(status.device.uuid, []).append(status)
    gone = [one for seen in past.values() for one in departed(seen[-1], seen, known)]
    return EndedProcesses(uses, exited(one.process for one in gone))


def _used(usage: Usage, uuid: str, at: float) -> "tuple[UsageInterval, ...]":
    """Returns the past use; empty without a history."""
    try:
        found = usage(uuid, at - REMEMBERED_SECONDS, at)
    except AndonError:
        return ()
    return tuple(sorted(found, key=lambda use: use.last)[-MOST:])
