"""The latest snapshot of this machine's server, as this process sees the devices.

One exchange replaces starting a driver. A server also knows what a new process cannot: since when
a device is silent, and who used it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.machine_id import boot_id, node_name
from andon.leases.book.places import book_path, has_changed
from andon.model.codec import Json, Name, Text, Time, read_schema
from andon.model.device import COMMANDS_MISSING, DeviceStatus, Process, Snapshot
from andon.model.lamp import DeviceLamp
from andon.model.verdict import DeviceVerdict
from andon.model.wire_in import snapshot_from_json
from andon.node.local_server import LocalServer, local_servers
from andon.sampling.rules.masks import visibility
from andon.sampling.rules.readings import checked_snapshot
from andon.sampling.rules.server_snapshot import ServerSnapshot, parse_interval

if TYPE_CHECKING:
    from andon.host.processes.facts import ProcessTable

SNAPSHOT = "/api/snapshot"
BOARD, LEASES = "/api/board", "/api/leases"
PATHS = (SNAPSHOT, BOARD, LEASES)
"""Read in one exchange, so that all are of the same moment."""


class BoardLamps(Struct, frozen=True):
    """The lamps in `andon.board/1`."""

    node: Name
    simulated: bool
    devices: tuple[DeviceLamp, ...]


class ListedBook(Struct, frozen=True):
    """The path of the book in a server's list of leases."""

    path: Text


class ListedDevices(Struct, frozen=True):
    """Of `andon.leases/1`: whether each device is available."""

    at: Time
    waiting: tuple[Json, ...]
    devices: tuple[DeviceVerdict, ...]
    book: ListedBook | None = None


class ServerReply(Struct, frozen=True):
    """A server's snapshot, with the lamps and verdicts that it sent in the same exchange."""

    reading: ServerSnapshot
    server: LocalServer

    def lamps(self) -> tuple[DeviceLamp, ...] | None:
        """Returns the lamps; None if the server has none for these devices, as with a recording."""
        seen = self.reading.snapshot
        try:
            board = read_schema(BoardLamps, self.server.get(BOARD), "andon.board/1")
        except AndonError:
            return None
        lit = {one.uuid: one for one in board.devices}
        uuids = [status.device.uuid for status in seen.devices]
        same = (board.node, board.simulated) == (seen.node, seen.simulated)
        return tuple(lit[uuid] for uuid in uuids) if same and lit.keys() >= {*uuids} else None

    def verdicts(self) -> tuple[DeviceVerdict, ...] | None:
        """Returns the verdicts; None if they may not hold for this process: devices are masked,
        someone waits in the queue, or the book is another one or has changed since."""
        if not all(status.visible for status in self.reading.snapshot.devices):
            return None
        try:
            found = read_schema(ListedDevices, self.server.get(LEASES), "andon.leases/1")
        except AndonError:
            return None
        other = found.book is not None and found.book.path != str(book_path(os.environ))
        if found.waiting or other or has_changed(os.environ, found.at):
            return None
        return found.devices or None


def server_snapshot(
    name: str | None, root: Path, usual_interval_seconds: float, commands: bool = True
) -> ServerReply | None:
    """Returns the snapshot of this user's own server, else of the system's; None if neither has
    one of this machine, which may have been renamed. On a machine without GPUs it may be one of
    simulated devices."""
    for server in local_servers(PATHS):
        try:
            found = checked_snapshot(snapshot_from_json(server.get(SNAPSHOT)))
        except AndonError:  # of another version
            continue
        if is_of_this_machine(found, name, root):
            pace = parse_interval(server.interval, usual_interval_seconds)
            return ServerReply(ServerSnapshot(as_seen_locally(found, root, commands), pace), server)
    return None


def as_seen_locally(snapshot: Snapshot, root: Path, commands: bool = True) -> Snapshot:
    """Returns the snapshot with this process's masks, and the command lines that /proc shows to
    this user."""
    seen = masked(snapshot, os.environ)
    return CommandLines(root)(seen) if commands else seen


def masked(snapshot: Snapshot, environment: Mapping[str, str]) -> Snapshot:
    """Returns the snapshot with the devices that an environment's masks hide marked."""
    seen = visibility([status.device for status in snapshot.devices], environment).visible
    devices = tuple(
        replace(status, visible=status.device.uuid in seen,
                cuda_index=seen.get(status.device.uuid))
        for status in snapshot.devices
    )  # fmt: skip
    return replace(snapshot, devices=devices)


class CommandLines:
    """Adds to snapshots the command lines that a server withheld and /proc shows to this user."""

    def __init__(self, root: Path, table: "ProcessTable | None" = None) -> None:
        self._root, self._table = root, table

    def __call__(self, snapshot: Snapshot) -> Snapshot:
        lacking = [status for status in snapshot.devices if _lacks_commands(status)]
        if not lacking:
            return snapshot
        if self._table is None:
            from andon.host.processes.facts import ProcessTable

            self._table = ProcessTable(self._root)
        wanted = {process.pid: Process(process.pid) for one in lacking for process in one.processes}
        found = {process.pid: process for process in self._table.attribute(wanted.values())}
        devices = tuple(
            _with_commands(status, found) if status in lacking else status
            for status in snapshot.devices
        )
        return replace(snapshot, devices=devices)


def _lacks_commands(status: DeviceStatus) -> bool:
    return any(process.command is None for process in status.processes)


def _with_commands(status: DeviceStatus, found: Mapping[int, Process]) -> DeviceStatus:
    """Adds command lines only where it is the same process: a pid may have been reused since."""
    processes = tuple(
        replace(
            one, command=local.command, name=one.name or local.name, user=one.user or local.user
        )
        if one.command is None and (local := found.get(one.pid)) and _is_same(one, local)
        else one
        for one in status.processes
    )
    filled = replace(status, processes=processes)
    if _lacks_commands(filled):
        return filled
    missing = {name: why for name, why in status.missing.items() if name != COMMANDS_MISSING}
    return replace(filled, missing=missing)


def _is_same(one: Process, other: Process) -> bool:
    from andon.host.processes.facts import SAME_START_SECONDS

    if one.started is None or other.started is None:
        return False
    return abs(one.started - other.started) < SAME_START_SECONDS


def is_of_this_machine(snapshot: Snapshot, name: str | None, root: Path) -> bool:
    return is_this_machine(snapshot, name, root) or is_simulated_machine(snapshot, name, root)


def is_this_machine(snapshot: Snapshot, name: str | None, root: Path) -> bool:
    """Whether the snapshot is of this machine's real devices, in this boot."""
    if snapshot.simulated or "replay" in snapshot.versions:
        return False
    return _is_same_machine(snapshot, name, root)


def is_simulated_machine(snapshot: Snapshot, name: str | None, root: Path) -> bool:
    """Whether the snapshot is of devices that this machine's server simulates because the machine
    has none: every command then shows them."""
    if not snapshot.simulated or "replay" in snapshot.versions:
        return False
    from andon.drivers.shared.presence import signs

    return not signs(root) and _is_same_machine(snapshot, name, root)


def _is_same_machine(snapshot: Snapshot, name: str | None, root: Path) -> bool:
    boot = boot_id(root)
    same = snapshot.boot is None or boot is None or snapshot.boot == boot
    return same and snapshot.node in (name, node_name())
