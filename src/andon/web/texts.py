"""`andon.snapshot/1` as text: made once for all who ask, and anew only where something changed."""

from dataclasses import dataclass, field

from andon.model import wire
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.web.station import HIDDEN, without_commands


@dataclass(slots=True)
class _Listed:
    """A device's processes as they were last shown, and their text for each kind of caller."""

    processes: tuple[Process, ...]
    with_commands: bool
    texts: dict[bool, str] = field(default_factory=dict)


class SnapshotTexts:
    """Keeps the texts of the latest snapshot. For one thread, which is the server's loop.

    A list of processes that did not change is the same object in the next snapshot, too: that is
    what spares most of the work.
    """

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._whole: dict[bool, str] = {}
        self._listed: dict[str, _Listed] = {}

    def of(self, snapshot: Snapshot, trusted: bool) -> str:
        """What `wire.snapshot_to_json` says of it; without the token no command lines."""
        if snapshot is not self._snapshot:
            self._snapshot, self._whole = snapshot, {}
            present = {status.device.uuid for status in snapshot.devices}
            self._listed = {uuid: one for uuid, one in self._listed.items() if uuid in present}
        found = self._whole.get(trusted)
        if found is None:
            found = self._whole[trusted] = self._made(snapshot, trusted)
        return found

    def _made(self, snapshot: Snapshot, trusted: bool) -> str:
        node = wire.dumps(wire.node_to_json(snapshot))[:-1]
        devices = ",".join([self._status(status, trusted) for status in snapshot.devices])
        faults = ",".join([wire.dumps(wire.fault_to_json(fault)) for fault in snapshot.faults])
        return f'{node},"devices":[{devices}],"faults":[{faults}]}}'

    def _status(self, status: DeviceStatus, trusted: bool) -> str:
        listed = self._list(status)
        facts = wire.device_status_to_json(status)
        if listed.with_commands and not trusted:
            facts["missing"]["command"] = HIDDEN
        text = listed.texts.get(trusted)
        if text is None:
            shown = status.processes if trusted else without_commands(status.processes)
            rows = [wire.dumps(wire.process_to_json(process)) for process in shown]
            text = listed.texts[trusted] = ",".join(rows)
        return f'{wire.dumps(facts)[:-1]},"processes":[{text}]}}'

    def _list(self, status: DeviceStatus) -> _Listed:
        uuid, processes = status.device.uuid, status.processes
        known = self._listed.get(uuid)
        if known is None or known.processes is not processes:
            commands = any(process.command is not None for process in processes)
            known = self._listed[uuid] = _Listed(processes, commands)
        return known
