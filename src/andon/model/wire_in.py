"""Reads the JSON that `wire` writes.

Unknown fields are ignored, so that a newer sender can be read; a wrong type, range or length is
rejected with its place. Impossible values are checked by `core/sampling/readings`.
"""

from collections.abc import Callable, Iterable
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace

from andon.errors import Invalid
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
from andon.model.shapes import names_of
from andon.model.topology.place import NO_PLACE, place_from_json
from andon.model.wire import MOST_INDEX, SHARES, SNAPSHOT, Json

MOST_DEVICES = 4096
MOST_REASONS = 64
_THROTTLE = SAMPLE_VALUES.index("throttle")


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
        place=inside(value, "place", place_from_json) or NO_PLACE,
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
_LIMIT_READERS = _readers(Limits, names_of(Limits))
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
