"""`andon.snapshot/1` as text: encoded once for every client, and only where something changed."""

import json
from collections.abc import Iterable
from functools import cache
from math import isfinite

from andon.model import wire
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.naming import device_labels
from andon.web.answers.anonymous import HIDDEN, without_commands


class MemberTexts:
    """The members of one JSON object; each is encoded again only when its value has changed."""

    __slots__ = ("_texts", "_values")

    def __init__(self) -> None:
        self._values: wire.Json = {}
        self._texts: dict[str, str] = {}

    def of(self, values: wire.Json) -> str:
        """The members separated by commas; every call must pass the same names."""
        known, texts = self._values, self._texts
        for name, value in values.items():
            old = known.get(name, self)
            if value is not old and (value != old or type(value) is not type(old)):
                texts[name] = member(name, encoded(value))
        self._values = values
        return ",".join(texts.values())


class DeviceTexts:
    """One device's part of the text, for callers with or without the token."""

    def __init__(self, trusted: bool) -> None:
        self._trusted = trusted
        self._state, self._sample = MemberTexts(), MemberTexts()
        self._facts: tuple[object, ...] = ()
        self._facts_text = ""
        self._missing: dict[str, str] | None = None
        self._missing_text = ""
        self._processes: tuple[Process, ...] | None = None
        self._processes_text = ""
        self._hides = False

    def of(self, status: DeviceStatus, label: str) -> str:
        processes = self._encode_processes(status.processes)
        parts = (
            self._encode_facts(status, label),
            member("sample", self._encode_sample(status)),
            member("missing", self._encode_missing(status)),
            member("processes", processes),
        )
        return joined_object(parts)

    def _encode_facts(self, status: DeviceStatus, label: str) -> str:
        """All that `wire.state_to_json` reads, compared before it is built."""
        facts = (
            status.device, status.state, status.since, status.reason, status.hint, status.visible,
            status.cuda_index, status.memory_unattributed_bytes, status.last_users, label,
        )  # fmt: skip
        if facts != self._facts:
            self._facts, self._facts_text = facts, self._state.of(wire.state_to_json(status, label))
        return self._facts_text

    def _encode_sample(self, status: DeviceStatus) -> str:
        values = wire.status_sample_to_json(status)
        return "null" if values is None else joined_object((self._sample.of(values),))

    def _encode_missing(self, status: DeviceStatus) -> str:
        missing = wire.missing_with_shares(status)
        if self._hides:
            missing["command"] = HIDDEN
        if missing != self._missing:
            self._missing, self._missing_text = missing, wire.dumps(missing)
        return self._missing_text

    def _encode_processes(self, processes: tuple[Process, ...]) -> str:
        """A list that did not change is the same object in the next snapshot."""
        if processes is not self._processes:
            self._hides = not self._trusted and any(p.command is not None for p in processes)
            shown = without_commands(processes) if self._hides else processes
            self._processes_text = wire.dumps([wire.process_to_json(one) for one in shown])
            self._processes = processes
        return self._processes_text


class SnapshotTexts:
    """Caches the text of the latest snapshot. For one thread: the server's event loop."""

    def __init__(self) -> None:
        self._latest: dict[bool, tuple[Snapshot, str]] = {}
        self._nodes = {trusted: MemberTexts() for trusted in (False, True)}
        self._devices: dict[bool, dict[str, DeviceTexts]] = {False: {}, True: {}}

    def of(self, snapshot: Snapshot, trusted: bool) -> str:
        """The same as `wire.snapshot_to_json`; without the token, no command lines."""
        latest = self._latest.get(trusted)
        if latest is None or latest[0] is not snapshot:
            latest = self._latest[trusted] = (snapshot, self._encoded(snapshot, trusted))
        return latest[1]

    def _encoded(self, snapshot: Snapshot, trusted: bool) -> str:
        known = self._devices[trusted]
        present = {
            status.device.uuid: known.get(status.device.uuid) or DeviceTexts(trusted)
            for status in snapshot.devices
        }
        self._devices[trusted] = present  # devices that were removed are forgotten
        names = device_labels(snapshot.devices)
        devices = [
            present[status.device.uuid].of(status, names[status.device.uuid])
            for status in snapshot.devices
        ]
        parts = (
            self._nodes[trusted].of(wire.node_to_json(snapshot)),
            member("devices", joined_array(devices)),
            member("faults", wire.dumps([wire.fault_to_json(one) for one in snapshot.faults])),
        )
        return _sendable(joined_object(parts))


def encoded(value: object) -> str:
    """One JSON value. Most are numbers: JSON writes them as `repr` does, which is much cheaper."""
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)
    return wire.dumps(value)


def member(name: str, text: str) -> str:
    """One member of a JSON object, whose value is encoded already."""
    return _key(name) + text


@cache
def _key(name: str) -> str:
    """Bounded: the names are those of the model."""
    return json.dumps(name) + ":"


def joined_object(members: Iterable[str]) -> str:
    """A JSON object of encoded members."""
    return "{" + ",".join(members) + "}"


def joined_array(values: Iterable[str]) -> str:
    """A JSON array of encoded values."""
    return "[" + ",".join(values) + "]"


def _sendable(text: str) -> str:
    """A folder name that is not valid UTF-8 must not end a connection."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
