"""JSON in and out: `andon.snapshot/1`, and the shapes that a reader process speaks."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from andon.errors import Invalid
from andon.model.device import (
    SAMPLE_VALUES,
    Card,
    Device,
    DeviceStatus,
    Disk,
    Fault,
    Host,
    Limits,
    MemoryKind,
    Network,
    Process,
    ProcessKind,
    Reading,
    Sample,
    Snapshot,
    State,
)
from andon.model.json_fields import number_in, text_in, time_in, words_of

SNAPSHOT = "andon.snapshot/1"

Json = dict[str, Any]
sample_values = attrgetter(*SAMPLE_VALUES)
"""The readings of a sample, in the order of its fields."""
T = TypeVar("T")

DERIVED = {"memory_percent": "memory_used_bytes", "power_percent": "power_watts"}
"""Shares that are computed from a reading, and the reading whose reason they inherit."""

_SAMPLE_ORDER = (
    "at", "utilization_percent", "memory_utilization_percent", "memory_used_bytes",
    "memory_free_bytes", "memory_reserved_bytes", "memory_percent", "temperature_celsius",
    "memory_temperature_celsius", "power_watts", "power_limit_watts", "power_percent",
)  # fmt: skip
_SAMPLE_BLANK = dict.fromkeys((*_SAMPLE_ORDER, *SAMPLE_VALUES))
_SAMPLE_READ = tuple(name for name in _SAMPLE_BLANK if name not in DERIVED)
_sample_read = attrgetter(*_SAMPLE_READ)
_PROCESS_ORDER = (
    "pid", "started", "kind", "name", "user", "command", "memory_bytes", "utilization_percent",
    "container", "job", "lease",
)  # fmt: skip
_LIMITS = tuple(f.name for f in fields(Limits))
_THROTTLE = SAMPLE_VALUES.index("throttle")
_TEXT_VALUES = frozenset({"throttle", "name", "user", "command", "container", "job", "lease"})


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def dumps(value: Json) -> str:
    """One line of JSON; NaN and infinity are refused, because JSON has neither."""
    return _encode(value)


def loads(text: str | bytes) -> Json:
    """One JSON object, or Invalid."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"this is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise Invalid("a JSON object was expected")
    return value


# Out.


def snapshot_to_json(snapshot: Snapshot) -> Json:
    return {
        **node_to_json(snapshot),
        "devices": [status_to_json(status) for status in snapshot.devices],
        "faults": [fault_to_json(fault) for fault in snapshot.faults],
    }


def node_to_json(snapshot: Snapshot) -> Json:
    """What a snapshot says of the node itself."""
    return {
        "schema": SNAPSHOT,
        "node": snapshot.node,
        "at": snapshot.at,
        "simulated": snapshot.simulated,
        "boot": snapshot.boot,
        "versions": dict(snapshot.versions),
        "host": _host_to_json(snapshot.host),
    }


def status_to_json(status: DeviceStatus) -> Json:
    return {
        **state_to_json(status),
        "sample": status_sample_to_json(status),
        "missing": missing_with_shares(status),
        "processes": [process_to_json(process) for process in status.processes],
    }


def state_to_json(status: DeviceStatus) -> Json:
    """What a status says of the device before any reading."""
    device = status.device
    return {
        "uuid": device.uuid,
        "index": device.index,
        "vendor": device.vendor,
        "name": device.name,
        "pci": device.pci,
        "state": str(status.state),
        "reason": status.reason,
        "hint": status.hint,
        "since": status.since,
        "parent": device.parent,
        "memory_kind": str(device.memory_kind),
        "memory_total_bytes": device.memory_total_bytes,
        "memory_unattributed_bytes": status.memory_unattributed_bytes,
        "visible": status.visible,
        "cuda_index": status.cuda_index,
        "limits": _plain(device.limits, _LIMITS),
    }


def missing_with_shares(status: DeviceStatus) -> dict[str, str]:
    """Why each absent value is absent, the computed shares included."""
    missing = dict(status.missing)
    if status.sample is not None:
        for share, source in DERIVED.items():
            if getattr(status, share) is None:
                missing[share] = missing.get(source) or _no_whole(share, missing)
    return missing


def _no_whole(share: str, missing: Mapping[str, str]) -> str:
    if share == "power_percent":
        return missing.get("power_limit_watts", "the power limit is unknown")
    return "the device's memory size is unknown"


def status_sample_to_json(status: DeviceStatus) -> Json | None:
    """The sample with its computed shares; the times of older readings come last."""
    sample = status.sample
    if sample is None:
        return None
    values: Json = dict(_SAMPLE_BLANK)
    values.update(zip(_SAMPLE_READ, _sample_read(sample), strict=True))
    values["memory_percent"] = status.memory_percent
    values["power_percent"] = status.power_percent
    values["read_at"] = dict(sample.read_at)
    return values


def process_to_json(process: Process) -> Json:
    return _plain(process, _PROCESS_ORDER)


def device_to_json(device: Device) -> Json:
    names = (
        "uuid",
        "index",
        "vendor",
        "name",
        "pci",
        "parent",
        "memory_kind",
        "memory_total_bytes",
    )
    return {**_plain(device, names), "limits": _plain(device.limits, _LIMITS)}


def card_to_json(card: Card) -> Json:
    return _plain(card, ("key", "index", "pci", "name"))


def reading_to_json(reading: Reading, before: Reading | None = None) -> Json:
    """For every device and tick, so only what differs from the reading sent `before`."""
    out: Json = {"uuid": reading.uuid, "state": reading.state}
    if reading.reason:
        out["reason"], out["hint"] = reading.reason, reading.hint
    if before is None or reading.missing != before.missing:
        out["missing"] = dict(reading.missing)
    if before is None or reading.processes != before.processes:
        out["processes"] = [process_to_json(process) for process in reading.processes]
    if reading.sample is not None:
        out |= _sample_difference(reading.sample, before.sample if before else None)
    return out


def _sample_difference(sample: Sample, before: Sample | None) -> Json:
    out: Json = {"at": sample.at, "values": sample_values(sample)}
    if before is None or sample.read_at != before.read_at:
        out["read_at"] = dict(sample.read_at)
    return out


def fault_to_json(fault: Fault) -> Json:
    return {"source": fault.source, "reason": fault.reason, "hint": fault.hint}


def _host_to_json(host: Host) -> Json:
    names = ("cpu_percent", "memory_used_bytes", "memory_total_bytes", "load_1m")
    return {
        **_plain(host, names),
        "disk": [_plain(disk, ("mount", "used_bytes", "total_bytes")) for disk in host.disk],
        "network": [
            _plain(link, ("name", "received_bytes", "sent_bytes")) for link in host.network
        ],
    }


def _plain(value: object, names: tuple[str, ...]) -> Json:
    return {name: getattr(value, name) for name in names}


# In. What is unknown to us is ignored, so that a newer sender can be read; what has the wrong
# type is refused with its place, because a number that is not one would spread.


def snapshot_from_json(value: Json) -> Snapshot:
    """Read `andon.snapshot/1`; anything else is Invalid."""
    if value.get("schema") != SNAPSHOT:
        raise Invalid(
            f"the schema is {value.get('schema')!r}, not {SNAPSHOT!r}",
            hint="this file or server speaks another version: upgrade the older of the two",
        )
    try:
        return Snapshot(
            node=text_in(value, "node"),
            at=time_in(value, "at"),
            simulated=bool(value.get("simulated", False)),
            boot=value.get("boot"),
            versions=_texts(value.get("versions")),
            host=_host_from_json(value.get("host") or {}),
            devices=tuple(_each(value, "devices", status_from_json)),
            faults=tuple(_each(value, "faults", fault_from_json)),
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as exc:
        raise Invalid(f"not a valid {SNAPSHOT}: {words_of(exc)}") from exc


def status_from_json(value: Json) -> DeviceStatus:
    sample = value.get("sample")
    missing = _texts(value.get("missing"))
    return DeviceStatus(
        device=device_from_json(value),
        state=State(value["state"]),
        since=time_in(value, "since"),
        reason=value.get("reason"),
        hint=value.get("hint"),
        visible=bool(value.get("visible", True)),
        cuda_index=number_in(value, "cuda_index"),
        sample=None if sample is None else sample_from_json(sample),
        missing={name: why for name, why in missing.items() if name not in DERIVED},
        processes=tuple(_each(value, "processes", process_from_json)),
    )


def device_from_json(value: Json) -> Device:
    limits = value.get("limits") or {}
    return Device(
        uuid=text_in(value, "uuid"),
        index=int(value["index"]),
        vendor=text_in(value, "vendor"),
        name=text_in(value, "name"),
        pci=value.get("pci"),
        parent=value.get("parent"),
        memory_kind=MemoryKind(value.get("memory_kind", "device")),
        memory_total_bytes=number_in(value, "memory_total_bytes"),
        limits=Limits(**{name: number_in(limits, name) for name in _LIMITS}),
    )


def sample_from_json(value: Json) -> Sample:
    values: Json = {
        name: value.get(name) if name in _TEXT_VALUES else number_in(value, name)
        for name in SAMPLE_VALUES
    }
    throttle = values["throttle"]
    values["throttle"] = None if throttle is None else tuple(str(reason) for reason in throttle)
    read_at = value.get("read_at") or {}
    return Sample(
        at=time_in(value, "at"), read_at={str(n): time_in(read_at, n) for n in read_at}, **values
    )


def process_from_json(value: Json) -> Process:
    get = value.get
    return Process(
        pid=int(value["pid"]),
        kind=ProcessKind(get("kind", "compute")),
        started=number_in(value, "started"),
        name=get("name"),
        user=get("user"),
        command=get("command"),
        memory_bytes=number_in(value, "memory_bytes"),
        utilization_percent=number_in(value, "utilization_percent"),
        container=get("container"),
        job=get("job"),
        lease=get("lease"),
    )


def card_from_json(value: Json) -> Card:
    return Card(text_in(value, "key"), int(value["index"]), value.get("pci"), value.get("name"))


def reading_from_json(value: Json, before: Reading | None = None) -> Reading:
    """What `reading_to_json` wrote, given the same reading `before`. A reader is trusted."""
    processes, missing = value.get("processes"), value.get("missing")
    if before is None and (processes is None or missing is None):
        raise Invalid("a difference came before the whole")
    return Reading(
        uuid=value["uuid"],
        sample=_sample_after(value, before.sample if before else None),
        missing=before.missing if before and missing is None else _texts(missing),
        processes=(
            before.processes
            if before and processes is None
            else tuple(process_from_json(process) for process in processes or ())
        ),
        state=State(value["state"]),
        reason=value.get("reason"),
        hint=value.get("hint"),
    )


def _sample_after(value: Json, before: Sample | None) -> Sample | None:
    values = value.get("values")
    if values is None:
        return None
    read_at = value.get("read_at")
    if read_at is None:
        read_at = before.read_at if before else {}
    if values[_THROTTLE] is not None:
        values[_THROTTLE] = tuple(values[_THROTTLE])
    return Sample(value["at"], *(*values, read_at))


def fault_from_json(value: Json) -> Fault:
    return Fault(text_in(value, "source"), text_in(value, "reason"), str(value.get("hint") or ""))


def _host_from_json(value: Json) -> Host:
    return Host(
        cpu_percent=number_in(value, "cpu_percent"),
        memory_used_bytes=number_in(value, "memory_used_bytes"),
        memory_total_bytes=number_in(value, "memory_total_bytes"),
        load_1m=number_in(value, "load_1m"),
        disk=tuple(
            _each(value, "disk", lambda d: Disk(d["mount"], d["used_bytes"], d["total_bytes"]))
        ),
        network=tuple(
            _each(
                value,
                "network",
                lambda n: Network(n["name"], n["received_bytes"], n["sent_bytes"]),
            )
        ),
    )


def _each(value: Json, name: str, read: Callable[[Json], T]) -> list[T]:
    return [read(item) for item in value.get(name) or ()]


def _texts(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table of texts")
    return {str(name): str(text) for name, text in value.items()}
