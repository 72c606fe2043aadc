"""What each user has on a node: devices, memory, share, and what is held but idle."""

from msgspec import Struct

from andon.model.lease import LeaseState
from andon.model.naming import label_order, range_of
from andon.model.utilisation import SCHEDULABLE_IDLE_PERCENT
from andon.tui.scene import Scene


class UserLine(Struct, frozen=True):
    """One user's row."""

    user: str
    devices: str
    processes: int
    memory_bytes: int | None  # None where that of a process is not known
    share: float | None  # of the memory of all devices
    held: str
    idle: str  # held devices that do nothing now


class _Tally(Struct):
    devices: set[str]
    pids: set[int]
    memory_bytes: int | None = 0
    held: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


def user_lines(scene: Scene) -> list[UserLine]:
    """Returns a row for each user, the one with the most memory first."""
    found: dict[str, _Tally] = {}
    total = 0
    for entry in scene.entries:
        if not entry.instance:
            total += entry.status.device.memory_total_bytes or 0
        for process in entry.status.processes:
            tally = found.setdefault(process.user or "unknown", _Tally(set(), set()))
            tally.devices.add(entry.label)
            tally.pids.add(process.pid)
            if tally.memory_bytes is not None:
                more = process.memory_bytes
                tally.memory_bytes = None if more is None else tally.memory_bytes + more
    _add_leases(found, scene)
    rows = [_line(user, tally, total) for user, tally in found.items()]
    return sorted(rows, key=lambda row: (-(row.memory_bytes or 0), row.user))


def _add_leases(found: dict[str, _Tally], scene: Scene) -> None:
    by_uuid = {entry.status.device.uuid: entry for entry in scene.entries}
    for row in () if scene.leases is None else scene.leases.leases:
        if row.state is LeaseState.UNREADABLE:
            continue
        tally = found.setdefault(row.user, _Tally(set(), set()))
        for share in row.devices:
            entry = by_uuid.get(share.uuid)
            label = str(share.index) if entry is None else entry.label
            tally.held += (label,)
            sample = entry.status.sample if entry is not None and entry.status.answered else None
            busy = None if sample is None else sample.utilization_percent
            if busy is not None and busy < SCHEDULABLE_IDLE_PERCENT:
                tally.idle += (label,)


def _line(user: str, tally: _Tally, total: int) -> UserLine:
    return UserLine(
        user,
        range_of(sorted(tally.devices, key=label_order)),
        len(tally.pids),
        tally.memory_bytes,
        100.0 * tally.memory_bytes / total if total and tally.memory_bytes is not None else None,
        f"GPU {range_of(sorted(set(tally.held), key=label_order))}" if tally.held else "",
        f"GPU {range_of(sorted(set(tally.idle), key=label_order))}" if tally.idle else "",
    )
