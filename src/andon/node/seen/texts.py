"""`andon.snapshot/1` as text: encoded once for every client, and only where something changed."""

import json
from collections import OrderedDict
from collections.abc import Iterable
from functools import cache
from math import isfinite

from msgspec.structs import asdict

from andon.access.roles import Sight
from andon.model import wire
from andon.model.codec import to_json
from andon.model.device import COMMANDS_MISSING, DeviceStatus, Process, Snapshot
from andon.model.naming import device_labels
from andon.node.seen.sights import hides, narrowed, why_hidden, without_commands

MOST_SIGHTS = 16
"""Texts of different users in the cache; one that is dropped is encoded again."""


class MemberTexts:
    """Encodes the members of a JSON object, each again only when its value has changed."""

    __slots__ = ("_texts", "_values")

    def __init__(self) -> None:
        self._values: wire.Json = {}
        self._texts: dict[str, str] = {}

    def of(self, values: wire.Json) -> str:
        """Returns the members, separated by commas; every call must pass the same names."""
        known, texts = self._values, self._texts
        for name, value in values.items():
            old = known.get(name, self)
            if value is not old and (value != old or type(value) is not type(old)):
                texts[name] = member(name, encoded(value))
        self._values = values
        return ",".join(texts.values())


class DeviceTexts:
    """Encodes one device for callers who see the same of it."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
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
        sample = wire.status_sample_to_json(status)
        parts = (
            self._encode_facts(status, label),
            member("sample", self._encode_sample(sample)),
            member("missing", self._encode_missing(status, sample)),
            member("processes", processes),
        )
        return joined_object(parts)

    def _encode_facts(self, status: DeviceStatus, label: str) -> str:
        """Encodes all that `wire.state_to_json` reads, if any of it has changed."""
        facts = (
            status.device, status.state, status.since, status.reason, status.hint, status.visible,
            status.cuda_index, status.memory_unattributed_bytes, status.band, status.last_users,
            status.pods, status.check, label,
        )  # fmt: skip
        if facts != self._facts:
            self._facts, self._facts_text = facts, self._state.of(wire.state_to_json(status, label))
        return self._facts_text

    def _encode_sample(self, values: wire.Json | None) -> str:
        return "null" if values is None else joined_object((self._sample.of(values),))

    def _encode_missing(self, status: DeviceStatus, sample: wire.Json | None) -> str:
        missing = wire.missing_with_shares(status, sample)
        if self._hides:
            missing[COMMANDS_MISSING] = why_hidden(self._sight)
        if missing != self._missing:
            self._missing, self._missing_text = missing, wire.dumps(missing)
        return self._missing_text

    def _encode_processes(self, processes: tuple[Process, ...]) -> str:
        """Encodes the processes; an unchanged list is the same object in the next snapshot."""
        if processes is not self._processes:
            self._hides = hides(self._sight, processes)
            shown = without_commands(self._sight, processes) if self._hides else processes
            self._processes_text = wire.dumps(to_json(shown))
            self._processes = processes
        return self._processes_text


class SightTexts:
    """Encodes the latest snapshot for callers who see the same of it."""

    def __init__(self, sight: Sight) -> None:
        self._sight, self._node = sight, MemberTexts()
        self._devices: dict[str, DeviceTexts] = {}
        self._latest: tuple[Snapshot, str] | None = None

    def of(self, snapshot: Snapshot) -> str:
        if self._latest is None or self._latest[0] is not snapshot:
            self._latest = snapshot, self._encoded(snapshot)
        return self._latest[1]

    def _encoded(self, snapshot: Snapshot) -> str:
        self._devices = {  # devices that were removed are forgotten
            status.device.uuid: self._devices.get(status.device.uuid) or DeviceTexts(self._sight)
            for status in snapshot.devices
        }
        names = device_labels(snapshot.devices)
        devices = [
            self._devices[status.device.uuid].of(status, names[status.device.uuid])
            for status in snapshot.devices
        ]
        parts = (
            self._node.of(wire.node_to_json(snapshot)),
            member("devices", joined_array(devices)),
            member("faults", wire.dumps([asdict(one) for one in snapshot.faults])),
        )
        return sendable(joined_object(parts))


class SnapshotTexts:
    """Caches the text of the latest snapshot. For one thread: the server's event loop."""

    def __init__(self) -> None:
        self._texts: OrderedDict[Sight, SightTexts] = OrderedDict()

    def of(self, snapshot: Snapshot, sight: Sight) -> str:
        """Returns the same as `wire.snapshot_to_json`, without hidden command lines."""
        sight = narrowed(sight, snapshot)
        texts = self._texts.get(sight)
        if texts is None:
            texts = self._texts[sight] = SightTexts(sight)
        self._texts.move_to_end(sight)
        while len(self._texts) > MOST_SIGHTS:
            self._texts.popitem(last=False)
        return texts.of(snapshot)


def encoded(value: object) -> str:
    """Encodes one JSON value. Most are numbers, for which `repr` is the same and much cheaper."""
    if type(value) is int or (type(value) is float and isfinite(value)):
        return repr(value)
    return wire.dumps(value)


def member(name: str, text: str) -> str:
    """One member of a JSON object, whose value is encoded already."""
    return _key(name) + text


@cache
def _key(name: str) -> str:
    """Encodes a key; the cache is bounded, because the names are those of the model."""
    return json.dumps(name) + ":"


def joined_object(members: Iterable[str]) -> str:
    """Returns a JSON object of encoded members."""
    return "{" + ",".join(members) + "}"


def joined_array(values: Iterable[str]) -> str:
    """Returns a JSON array of encoded values."""
    return "[" + ",".join(values) + "]"


def sendable(text: str) -> str:
    """Returns the text in valid UTF-8: a folder name that is not must not end a connection."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
