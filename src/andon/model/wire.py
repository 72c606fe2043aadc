"""JSON of snapshots (`andon.snapshot/1`) and of the reader process's messages."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import asdict

from andon.errors import Invalid
from andon.model.codec import DEEPEST, is_shallow, to_json, written
from andon.model.device import (
    SAMPLE_VALUES,
    SHARE_NAMES,
    SNAPSHOT,
    Device,
    DeviceStatus,
    Process,
    Reading,
    Sample,
    Snapshot,
)
from andon.model.naming import device_labels
from andon.model.shapes import Member, names_of, plain
from andon.model.utilisation import Band

Json = dict[str, Any]
sample_values = attrgetter(*SAMPLE_VALUES)
"""The values of a sample, in the order of its fields."""


class TextBounds(Struct, frozen=True):
    """Limits for JSON from other programs, in unpacked bytes and in values. No text is read without
    them: a megabyte can unpack to fifty, and twenty kilobytes to a gigabyte."""

    length: int
    values: int


NOTE = TextBounds(1 << 20, 20_000)
"""A header, a line or a small file."""
ANSWER = TextBounds(64 << 20, 1_000_000)
"""A server's or a snapshot: 256 GPUs have a tenth of it."""


class ComputedShare(Struct, frozen=True):
    """A share that the JSON adds to a sample."""

    member: Member
    source: str  # the reading whose reason it inherits
    after: str  # the reading that it follows in the JSON


_MEMORY_SHARE = ComputedShare(
    Member(float | None, "used memory, of the total"), "memory_used_bytes", "memory_reserved_bytes"
)
_POWER_SHARE = ComputedShare(
    Member(float | None, "power, of the limit in force"), "power_watts", "power_limit_watts"
)
SHARES = dict(zip(SHARE_NAMES, (_MEMORY_SHARE, _POWER_SHARE), strict=True))
COMPUTED = {
    "label": Member(
        str, "what it is called everywhere: its index, or `6:0` for the first partition of board 6"
    ),
    "memory_unattributed_bytes": Member(
        int | None, "memory in use that no visible process accounts for"
    ),
    "band": Member(
        Band | None,
        "its utilisation in one word: `idle` (0 %), `light` (to 25 %), `moderate` (to 75 %) or "
        "`heavy`; `null` if that is unknown",
    ),
}
"""What the JSON adds to a device."""


def _with_shares(names: Iterable[str]) -> Iterator[str]:
    following = {share.after: name for name, share in SHARES.items()}
    for name in names:
        yield name
        if name in following:
            yield following[name]


SAMPLE_ORDER = tuple(_with_shares(names_of(Sample)))
STATE_ORDER = (
    "uuid", "index", "label", "vendor", "name", "pci", "state", "reason", "hint", "since", "parent",
    "memory_kind", "memory_total_bytes", "memory_unattributed_bytes", "band", "visible",
    "cuda_index", "limits", "setup", "last_users", "pods", "check",
)  # fmt: skip
"""A device and its state are one object in the JSON; its readings follow."""
STATUS_ORDER = (*STATE_ORDER, "sample", "missing", "processes")
_PROCESS = names_of(Process, "pid", "started")
PROCESS_ORDER = tuple(name for name, _ in written(Process))
PROGRAM = Member(
    str | None, "what people call it, such as `train.py` or `vllm serve`; `name` without `command`"
)
NODE_ORDER = names_of(Snapshot, without=("devices", "faults", "events"))
_SAMPLE_BLANK = dict.fromkeys(SAMPLE_ORDER)
_SAMPLE_READ = tuple(name for name in SAMPLE_ORDER if name not in (*SHARES, "read_at"))
_sample_read = attrgetter(*_SAMPLE_READ)
_DEVICE = names_of(Device, without=("place",))
_state_read = attrgetter(*(f"device.{n}" if n in _DEVICE else n for n in STATE_ORDER))
_BARE = tuple(name for name in STATUS_ORDER if name not in COMPUTED)
_bare_read = attrgetter(*(f"device.{n}" if n in _DEVICE else n for n in _BARE))
_node_read = attrgetter(*NODE_ORDER)  # for every frame

_to_line, _from_line = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode
_UNSEEN = (
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Control and format characters beyond ASCII: some control a terminal, others reorder a line."""


def dumps(value: object, indented: bool = False) -> str:
    """Returns JSON in one line; NaN and infinity are rejected, because JSON has neither.

    Invisible characters are escaped: a process may have any name, and JSON is printed.
    """
    return _escaped(_encoder(indented)(value))


@cache
def _encoder(indented: bool) -> Callable[[object], str]:
    import json  # a table needs no JSON

    indent, separators = (2, None) if indented else (None, (",", ":"))
    return json.JSONEncoder(
        indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    ).encode


def _escaped(text: str) -> str:
    if text.isascii() and "\x7f" not in text:
        return text
    from json import dumps as quoted

    return re.sub(_UNSEEN, lambda found: quoted(found[0])[1:-1], text)


def snapshot_line(snapshot: Snapshot) -> str:
    """Returns a snapshot in one line, as `dumps` would write it, in a quarter of the time.

    Its numbers were checked when they were read, and none of them is NaN.
    """
    value = snapshot_to_json(snapshot)
    try:
        return _escaped(_to_line(value).decode())
    except UnicodeEncodeError:
        return struct_text(value)


def struct_text(value: object) -> str:
    """Returns the JSON of values in any depth, without a copy of each; their numbers were checked
    before."""
    try:
        return _escaped(_to_line(value).decode())
    except UnicodeEncodeError:  # half a character, in what another machine sent
        return dumps(msgspec.to_builtins(value))


def loads(text: str | bytes, bounds: TextBounds, *, any_text: bool = False) -> Json:
    """Parses one JSON object; raises Invalid otherwise, and for too many values before it takes
    the memory. With `any_text` strings may have lone surrogates, which no output can show."""
    marks: Any = (",", "[", "{") if isinstance(text, str) else (b",", b"[", b"{")
    commas, lists, tables = (text.count(mark) for mark in marks)  # at most: strings may have some
    if len(text) > bounds.length or commas + lists + tables >= bounds.values:
        raise Invalid(f"more than {bounds.length} bytes or {bounds.values} values")
    value = _parsed(text, any_text)
    if not isinstance(value, dict):
        raise Invalid("a JSON object was expected")
    if lists + tables > DEEPEST and not is_shallow(value):
        raise Invalid(f"more than {DEEPEST} levels")
    return value


def reader_line(message: Json) -> bytes:
    """Encodes a message of a reader, for every device and sample, in a tenth of the time of
    `dumps`.

    NaN becomes null, and no character is escaped: only its parent reads it.
    """
    return _to_line(message)


def reader_messages(line: bytes) -> list[Json]:
    """Parses one message of a reader, or a list of them; raises Invalid otherwise."""
    try:
        value = _from_line(line)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Invalid(f"not valid JSON: {exc}") from exc
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise Invalid("a JSON object was expected")
    return found


def _parsed(text: str | bytes, any_text: bool = False) -> Any:
    try:
        if not any_text:
            return decode(text)
        from json import loads as loads_any

        return loads_any(text)
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"not valid JSON: {exc}") from exc


# Out.


def snapshot_to_json(snapshot: Snapshot) -> Json:
    return {
        **node_to_json(snapshot),
        "devices": statuses_to_json(snapshot),
        "faults": [asdict(fault) for fault in snapshot.faults],
    }


def bare_snapshot(snapshot: Snapshot) -> Json:
    """Returns the snapshot for `struct_text`, in a third of the time: values instead of objects,
    without the computed fields, which the reader can compute."""
    names, devices = device_labels(snapshot.devices), list[Json]()
    for status in snapshot.devices:
        devices.append(dict(zip(_BARE, _bare_read(status), strict=True)))
        devices[-1]["label"] = names[status.device.uuid]
    return {**_bare_node(snapshot), "devices": devices, "faults": snapshot.faults}


def _bare_node(snapshot: Snapshot) -> Json:
    values: Json = {"schema": SNAPSHOT}
    values.update(zip(NODE_ORDER, _node_read(snapshot), strict=True))
    return values


def node_to_json(snapshot: Snapshot) -> Json:
    """Returns the part of a snapshot about the node itself."""
    values = _bare_node(snapshot)
    values["versions"] = dict(snapshot.versions)
    values["host"] = msgspec.to_builtins(snapshot.host)
    return values


def statuses_to_json(snapshot: Snapshot) -> list[Json]:
    """Returns every device of a snapshot, each under its label."""
    names = device_labels(snapshot.devices)
    return [status_to_json(status, names[status.device.uuid]) for status in snapshot.devices]


def processes_to_json(snapshot: Snapshot) -> list[Json]:
    """Returns every process of a snapshot, with its device's index and uuid."""
    return [
        {"gpu_index": s.device.index, "gpu_uuid": s.device.uuid, **to_json(p)}
        for s in snapshot.devices
        for p in s.processes
    ]


def status_to_json(status: DeviceStatus, label: str) -> Json:
    sample = status_sample_to_json(status)
    return {
        **state_to_json(status, label),
        "sample": sample,
        "missing": missing_with_shares(status, sample),
        "processes": [to_json(process) for process in status.processes],
    }


def state_to_json(status: DeviceStatus, label: str) -> Json:
    """Returns the part of a status about the device, without readings."""
    values: Json = dict(zip(STATE_ORDER, _state_read(status), strict=True))
    values["label"] = label
    values["limits"] = asdict(status.device.limits)
    values["setup"] = msgspec.to_builtins(status.device.setup)
    values["check"] = msgspec.to_builtins(status.check)
    return values


def missing_with_shares(status: DeviceStatus, sample: Json | None) -> dict[str, str]:
    """Returns why each missing value of `status_sample_to_json` is missing."""
    missing = dict(status.missing)
    if sample is not None:
        for name, share in SHARES.items():
            if sample[name] is None:
                missing[name] = missing.get(share.source) or _no_whole(name, missing)
    return missing


def _no_whole(share: str, missing: Mapping[str, str]) -> str:
    if share == "power_percent":
        return missing.get("power_limit_watts", "the power limit is unknown")
    return "the device's memory size is unknown"


def status_sample_to_json(status: DeviceStatus) -> Json | None:
    """Returns the sample with its computed shares; the times of older readings come last."""
    sample = status.sample
    if sample is None:
        return None
    values: Json = dict(_SAMPLE_BLANK)
    values.update(zip(_SAMPLE_READ, _sample_read(sample), strict=True))
    values["memory_percent"] = status.memory_percent
    values["power_percent"] = status.power_percent
    values["read_at"] = dict(sample.read_at)
    return values


def reading_to_json(reading: Reading, before: Reading | None = None) -> Json:
    """Returns only what differs from the reading `before`, which was sent earlier."""
    out: Json = {"uuid": reading.uuid, "state": reading.state}
    if reading.reason:
        out["reason"], out["hint"] = reading.reason, reading.hint
    if before is None or reading.missing != before.missing:
        out["missing"] = dict(reading.missing)
    if before is None or reading.processes != before.processes:
        out["processes"] = [plain(process, _PROCESS) for process in reading.processes]
    if reading.sample is not None:
        out |= _sample_difference(reading.sample, before.sample if before else None)
    return out


def _sample_difference(sample: Sample, before: Sample | None) -> Json:
    out: Json = {"at": sample.at, "values": sample_values(sample)}
    if before is None or sample.read_at != before.read_at:
        out["read_at"] = dict(sample.read_at)
    return out
