"""`andon.snapshot/1` as text: made once for all who ask, and anew only where something changed."""

from collections.abc import Callable
from typing import Any

from andon.model import wire
from andon.model.device import DeviceStatus, Process, Snapshot, device_labels
from andon.web.snapshot_feed import HIDDEN, without_commands


class KeptText:
    """The text of a value that is mostly the same object as last time."""

    __slots__ = ("_of", "_text")

    def __init__(self) -> None:
        self._of: object = self  # which nobody else can ask for
        self._text = ""

    def of(self, value: Any, make: Callable[[Any], str]) -> str:
        if value is not self._of:
            self._text = make(value)
            self._of = value
        return self._text


class DeviceTexts:
    """One device's part, for one kind of caller."""

    def __init__(self, trusted: bool) -> None:
        self._trusted = trusted
        self._state, self._times, self._rows = KeptText(), KeptText(), KeptText()
        self._facts: tuple[object, ...] = ()
        self._hides = False

    def of(self, status: DeviceStatus, label: str) -> str:
        rows = self._rows.of(status.processes, self._processes)
        return (
            f'{self._before(status, label)},"sample":{self._sample(status)},'
            f'"missing":{self._missing(status)},"processes":[{rows}]}}'
        )

    def _before(self, status: DeviceStatus, label: str) -> str:
        facts = (
            status.device, status.state, status.since, status.reason, status.hint, status.visible,
            status.cuda_index, status.memory_unattributed_bytes, label,
        )  # fmt: skip
        if facts != self._facts:
            self._facts = facts
        return self._state.of(
            self._facts, lambda _: wire.dumps(wire.state_to_json(status, label))[:-1]
        )

    def _sample(self, status: DeviceStatus) -> str:
        values = wire.status_sample_to_json(status)
        if values is None or status.sample is None:
            return "null"
        del values["read_at"]
        times = self._times.of(status.sample.read_at, lambda at: wire.dumps(dict(at)))
        return f'{wire.dumps(values)[:-1]},"read_at":{times}}}'

    def _missing(self, status: DeviceStatus) -> str:
        missing = wire.missing_with_shares(status)
        if self._hides:
            missing["command"] = HIDDEN
        return wire.dumps(missing)

    def _processes(self, processes: tuple[Process, ...]) -> str:
        self._hides = not self._trusted and any(p.command is not None for p in processes)
        shown = without_commands(processes) if self._hides else processes
        return ",".join([wire.dumps(wire.process_to_json(process)) for process in shown])


class SnapshotTexts:
    """Keeps the texts of the latest snapshot. For one thread, which is the server's loop.

    What did not change is the same object in the next snapshot, too: that is what spares most of
    the work.
    """

    def __init__(self) -> None:
        self._whole = {trusted: KeptText() for trusted in (False, True)}
        self._devices: dict[bool, dict[str, DeviceTexts]] = {False: {}, True: {}}

    def of(self, snapshot: Snapshot, trusted: bool) -> str:
        """What `wire.snapshot_to_json` says of it; without the token no command lines."""
        return self._whole[trusted].of(snapshot, lambda _: self._made(snapshot, trusted))

    def _made(self, snapshot: Snapshot, trusted: bool) -> str:
        known = self._devices[trusted]
        present = {
            status.device.uuid: known.get(status.device.uuid) or DeviceTexts(trusted)
            for status in snapshot.devices
        }
        self._devices[trusted] = present  # what is gone is forgotten
        node = wire.dumps(wire.node_to_json(snapshot))[:-1]
        names = device_labels(snapshot.devices)
        devices = ",".join(
            [present[s.device.uuid].of(s, names[s.device.uuid]) for s in snapshot.devices]
        )
        faults = ",".join([wire.dumps(wire.fault_to_json(fault)) for fault in snapshot.faults])
        return _sendable(f'{node},"devices":[{devices}],"faults":[{faults}]}}')


def _sendable(text: str) -> str:
    """A name that is no text (a folder's may be any bytes) must not end a connection."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
