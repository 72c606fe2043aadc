"""JSON of snapshots (`andon.snapshot/1`) and of the reader process's messages."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_type_hints

from andon.errors import Invalid
from andon.model.band import Band
from andon.model.device import (
    HOST_VALUES,
    NOT_READ,
    SAMPLE_VALUES,
    SETUP_VALUES,
    Card,
    Device,
    DeviceStatus,
    Disk,
    DriverVersions,
    Fault,
    Host,
    Limits,
    MemoryKind,
    Network,
    Process,
    ProcessKind,
    Reading,
    Sample,
    Setup,
    Snapshot,
    State,
)
from andon.model.json_fields import (
    MOST_PID,
    NAME,
    Wrong,
    choice_in,
    each_in,
    flag_in,
    inside,
    names_in,
    number_in,
    rounded_in,
    some_flag_in,
    some_text_in,
    some_time_in,
    some_whole_in,
    text_in,
    text_of,
    texts_in,
    time_in,
    whole_in,
)
from andon.model.naming import device_labels
from andon.model.programs import program_of
from andon.model.shapes import Member, names_of, plain

SNAPSHOT = "andon.snapshot/1"

Json = dict[str, Any]
sample_values = attrgetter(*SAMPLE_VALUES)
"""The values of a sample, in the order of its fields."""


class ComputedShare(NamedTuple):
    """A share that the JSON adds to a sample."""

    member: Member
    source: str  # the reading whose reason it inherits
    after: str  # the reading that it follows in the JSON


SHARES = {
    "memory_percent": ComputedShare(
        Member(float | None, "used memory, of the total"),
        "memory_used_bytes",
        "memory_reserved_bytes",
    ),
    "power_percent": ComputedShare(
        Member(float | None, "power, of the limit in force"), "power_watts", "power_limit_watts"
    ),
}
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
    "cuda_index", "limits", "setup", "last_users",
)  # fmt: skip
"""A device and its state are one object in the JSON; its readings follow."""
STATUS_ORDER = (*STATE_ORDER, "sample", "missing", "processes")
_PROCESS = names_of(Process, "pid", "started")
PROCESS_ORDER = (*_PROCESS, "program")
PROGRAM = Member(
    str | None, "what people call it, such as `train.py` or `vllm serve`; `name` without `command`"
)
NODE_ORDER = names_of(Snapshot, without=("devices", "faults", "events"))
_SAMPLE_BLANK = dict.fromkeys(SAMPLE_ORDER)
_SAMPLE_READ = tuple(name for name in SAMPLE_ORDER if name not in (*SHARES, "read_at"))
_sample_read = attrgetter(*_SAMPLE_READ)
_DEVICE = names_of(Device)
_state_read = attrgetter(*(f"device.{n}" if n in _DEVICE else n for n in STATE_ORDER))
_LIMITS, _HOST, _CARD = names_of(Limits), names_of(Host), names_of(Card)
_SETUP = names_of(Setup)
_DISK, _NETWORK, _FAULT = names_of(Disk), names_of(Network), names_of(Fault)
_DRIVER = names_of(DriverVersions)
_node_read, _host_read = attrgetter(*NODE_ORDER), attrgetter(*_HOST)  # for every frame
_THROTTLE = SAMPLE_VALUES.index("throttle")
MOST_DEVICES = 4096
MOST_INDEX = 65_535
MOST_REASONS = 64

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_indented = json.JSONEncoder(indent=2, ensure_ascii=False, allow_nan=False).encode
_UNSEEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Control and format characters beyond ASCII: some control a terminal, others reorder a line."""


def dumps(value: object, indented: bool = False) -> str:
    """JSON in one line; NaN and infinity are rejected, because JSON has neither.

    Invisible characters are escaped: a process may have any name, and JSON is printed.
    """
    text = _encode_indented(value) if indented else _encode(value)
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def loads(text: str | bytes) -> Json:
    """Parse one JSON object; raises Invalid otherwise."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Invalid(f"not valid JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise Invalid("a JSON object was expected")
    return value


# Out.


def snapshot_to_json(snapshot: Snapshot) -> Json:
    return {
        **node_to_json(snapshot),
        "devices": statuses_to_json(snapshot),
        "faults": [fault_to_json(fault) for fault in snapshot.faults],
    }


def node_to_json(snapshot: Snapshot) -> Json:
    """The part of a snapshot about the node itself."""
    values: Json = {"schema": SNAPSHOT}
    values.update(zip(NODE_ORDER, _node_read(snapshot), strict=True))
    values["versions"] = dict(snapshot.versions)
    values["host"] = _host_to_json(snapshot.host)
    return values


def statuses_to_json(snapshot: Snapshot) -> list[Json]:
    """Every device of a snapshot, each under its label."""
    names = device_labels(snapshot.devices)
    return [status_to_json(status, names[status.device.uuid]) for status in snapshot.devices]


def status_to_json(status: DeviceStatus, label: str) -> Json:
    return {
        **state_to_json(status, label),
        "sample": status_sample_to_json(status),
        "missing": missing_with_shares(status),
        "processes": [process_to_json(process) for process in status.processes],
    }


def state_to_json(status: DeviceStatus, label: str) -> Json:
    """The part of a status about the device, without readings."""
    values: Json = dict(zip(STATE_ORDER, _state_read(status), strict=True))
    values["label"] = label
    values["limits"] = plain(status.device.limits, _LIMITS)
    values["setup"] = _setup_to_json(status.device.setup)
    return values


def _setup_to_json(setup: Setup) -> Json:
    return {**plain(setup, _SETUP), "missing": dict(setup.missing)}


def missing_with_shares(status: DeviceStatus) -> dict[str, str]:
    """Why each missing value is missing, including the computed shares."""
    missing = dict(status.missing)
    if status.sample is not None:
        for name, share in SHARES.items():
            if getattr(status, name) is None:
                missing[name] = missing.get(share.source) or _no_whole(name, missing)
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
    """With what people call it, which is computed and never stored."""
    program = program_of(process.command, process.name)
    return {**plain(process, _PROCESS), "program": program}


def device_to_json(device: Device) -> Json:
    return {
        **plain(device, _DEVICE),
        "limits": plain(device.limits, _LIMITS),
        "setup": _setup_to_json(device.setup),
    }


def card_to_json(card: Card) -> Json:
    return plain(card, _CARD)


def reading_to_json(reading: Reading, before: Reading | None = None) -> Json:
    """Sent for every device and sample, so only what differs from the reading sent `before`."""
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


def fault_to_json(fault: Fault) -> Json:
    return plain(fault, _FAULT)


def _host_to_json(host: Host) -> Json:
    values: Json = dict(zip(_HOST, _host_read(host), strict=True))
    values["disk"] = [plain(disk, _DISK) for disk in host.disk]
    values["network"] = [plain(link, _NETWORK) for link in host.network]
    values["missing"] = dict(host.missing)
    if host.drivers is not None:
        values["drivers"] = [_driver_to_json(one) for one in host.drivers]
    return values


def _driver_to_json(driver: DriverVersions) -> Json:
    return {**plain(driver, _DRIVER), "modules": dict(driver.modules)}


# In. Unknown fields are ignored, so that a newer sender can be read; a wrong type, range or length
# is rejected with its place. Impossible values are checked by `core/sampling/readings`.


def snapshot_from_json(value: Json) -> Snapshot:
    """Read `andon.snapshot/1`; anything else is Invalid."""
    if value.get("schema") != SNAPSHOT:
        raise Invalid(
            f"the schema is {str(value.get('schema'))[:40]!r}, not {SNAPSHOT!r}",
            hint="this file or server has another version: upgrade the older of the two",
        )
    try:
        return Snapshot(
            node=text_in(value, "node", NAME),
            at=time_in(value, "at"),
            simulated=flag_in(value, "simulated"),
            boot=some_text_in(value, "boot", NAME),
            versions=texts_in(value, "versions"),
            host=inside(value, "host", _host_from_json) or Host(),
            devices=_unlabelled(each_in(value, "devices", status_from_json, MOST_DEVICES)),
            faults=tuple(each_in(value, "faults", fault_from_json, MOST_DEVICES)),
        )
    except Wrong as wrong:
        raise Invalid(f"not a valid {SNAPSHOT}: {wrong}") from wrong


def _unlabelled(statuses: Iterable[DeviceStatus]) -> tuple[DeviceStatus, ...]:
    """Without the labels that follow from the list; an older sender states none."""
    listed = tuple(statuses)
    bare = tuple(replace(status, label="") for status in listed)
    told = device_labels(bare)
    return tuple(
        status if status.label not in ("", told[status.device.uuid]) else plain
        for status, plain in zip(listed, bare, strict=True)
    )


def status_from_json(value: Json) -> DeviceStatus:
    missing = texts_in(value, "missing")
    return DeviceStatus(
        device=device_from_json(value),
        state=choice_in(value, "state", State),
        since=time_in(value, "since"),
        reason=some_text_in(value, "reason"),
        hint=some_text_in(value, "hint"),
        visible=flag_in(value, "visible", default=True),
        cuda_index=some_whole_in(value, "cuda_index", MOST_INDEX),
        sample=inside(value, "sample", sample_from_json),
        missing={name: why for name, why in missing.items() if name not in SHARES},
        processes=tuple(each_in(value, "processes", process_from_json)),
        last_users=names_in(value, "last_users"),
        label=some_text_in(value, "label", NAME) or "",
    )


def device_from_json(value: Json) -> Device:
    return Device(
        uuid=text_in(value, "uuid", NAME),
        index=whole_in(value, "index", MOST_INDEX),
        vendor=text_in(value, "vendor", NAME),
        name=text_in(value, "name", NAME),
        pci=some_text_in(value, "pci", NAME),
        parent=some_text_in(value, "parent", NAME),
        memory_kind=(
            MemoryKind.DEVICE
            if value.get("memory_kind") is None
            else choice_in(value, "memory_kind", MemoryKind)
        ),
        memory_total_bytes=rounded_in(value, "memory_total_bytes"),
        limits=inside(value, "limits", _limits_from_json) or Limits(),
        setup=inside(value, "setup", _setup_from_json) or NOT_READ,
    )


def _limits_from_json(value: Json) -> Limits:
    return Limits(**{name: read(value, name) for name, read in _LIMIT_READERS.items()})


def _setup_from_json(value: Json) -> Setup:
    missing = texts_in(value, "missing")
    return Setup(
        persistence=some_flag_in(value, "persistence"),
        ecc=some_flag_in(value, "ecc"),
        ecc_pending=some_flag_in(value, "ecc_pending"),
        start_seconds=number_in(value, "start_seconds", 0.0),
        missing={name: why for name, why in missing.items() if name in SETUP_VALUES},
    )


def sample_from_json(value: Json) -> Sample:
    values: Json = {name: read(value, name) for name, read in _VALUE_READERS.items()}
    return Sample(
        at=time_in(value, "at"),
        throttle=_throttle_from_json(value),
        read_at=inside(value, "read_at", _times_from_json) or {},
        **values,
    )


def _readers(kind: type, names: Iterable[str]) -> dict[str, Callable[[Json, str], Any]]:
    """A field that counts in whole numbers is rounded: what is sent has the type of the model."""
    hints = get_type_hints(kind)
    return {name: rounded_in if int in get_args(hints[name]) else number_in for name in names}


_VALUE_READERS = _readers(Sample, (name for name in SAMPLE_VALUES if name != "throttle"))
_LIMIT_READERS = _readers(Limits, _LIMITS)
_HOST_READERS = _readers(Host, HOST_VALUES)


def _throttle_from_json(value: Json) -> tuple[str, ...] | None:
    found = value.get("throttle")
    if found is None:
        return None
    if not isinstance(found, (list, tuple)) or len(found) > MOST_REASONS:
        raise Wrong("throttle", "is not a short list of strings")
    return tuple(text_of(reason, f"throttle[{i}]", NAME) for i, reason in enumerate(found))


def _times_from_json(value: Json) -> dict[str, float]:
    """When single values were read; unknown names of a newer sender are dropped."""
    return {name: time_in(value, name) for name in SAMPLE_VALUES if name in value}


def process_from_json(value: Json) -> Process:
    return Process(
        pid=whole_in(value, "pid", MOST_PID),
        kind=(
            ProcessKind.COMPUTE
            if value.get("kind") is None
            else choice_in(value, "kind", ProcessKind)
        ),
        started=some_time_in(value, "started"),
        name=some_text_in(value, "name", NAME),
        user=some_text_in(value, "user", NAME),
        command=some_text_in(value, "command"),
        memory_bytes=rounded_in(value, "memory_bytes"),
        utilization_percent=rounded_in(value, "utilization_percent"),
        container=some_text_in(value, "container", NAME),
        job=some_text_in(value, "job", NAME),
        lease=some_text_in(value, "lease", NAME),
    )


def card_from_json(value: Json) -> Card:
    return Card(
        text_in(value, "key", NAME),
        whole_in(value, "index", MOST_INDEX),
        some_text_in(value, "pci", NAME),
        some_text_in(value, "name", NAME),
    )


_STATES = {str(state): state for state in State}  # a call of the enumeration costs ten times more


def reading_from_json(value: Json, before: Reading | None = None) -> Reading:
    """Read what `reading_to_json` wrote, given the same `before`. A reader is trusted."""
    processes, missing = value.get("processes"), value.get("missing")
    if before is None and (processes is None or missing is None):
        raise Invalid("received a difference before a complete reading")
    return Reading(
        uuid=value["uuid"],
        sample=_sample_after(value, before.sample if before else None),
        missing=before.missing if before and missing is None else texts_in(value, "missing"),
        processes=(
            before.processes
            if before and processes is None
            else tuple(process_from_json(process) for process in processes or ())
        ),
        state=_STATES.get(value["state"]) or State(value["state"]),
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
    files = value.get("device_files")
    return Fault(
        text_in(value, "source", NAME),
        text_in(value, "reason"),
        some_text_in(value, "hint") or "",
        some_text_in(value, "code", NAME) or "",
        rounded_in(value, "cards"),
        None if files is None else flag_in(value, "device_files"),
        some_text_in(value, "container", NAME),
    )


def _host_from_json(value: Json) -> Host:
    numbers: Json = {name: read(value, name) for name, read in _HOST_READERS.items()}
    return Host(
        disk=tuple(each_in(value, "disk", _disk_from_json)),
        network=tuple(each_in(value, "network", _network_from_json)),
        drivers=(
            None
            if value.get("drivers") is None
            else tuple(each_in(value, "drivers", _driver_from_json))
        ),
        missing=texts_in(value, "missing"),
        **numbers,
    )


def _driver_from_json(value: Json) -> DriverVersions:
    return DriverVersions(
        text_in(value, "vendor", NAME),
        texts_in(value, "modules"),
        some_text_in(value, "library", NAME),
    )


def _disk_from_json(value: Json) -> Disk:
    return Disk(
        text_in(value, "mount"), whole_in(value, "used_bytes"), whole_in(value, "total_bytes")
    )


def _network_from_json(value: Json) -> Network:
    return Network(
        text_in(value, "name", NAME),
        whole_in(value, "received_bytes"),
        whole_in(value, "sent_bytes"),
    )
