"""Reads the JSON that `wire` writes.

Unknown fields are ignored, so that a newer sender can be read; a wrong type, range or length is
rejected with its place. Impossible values are checked by `sampling/rules/readings`.
"""

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from andon.errors import Invalid
from andon.model.codec import MOST_ITEMS, Amount, Json, Name, Percent, Text, Wrong, read, rounded
from andon.model.device import (
    MOST_DEVICES,
    SAMPLE_VALUES,
    SHARE_NAMES,
    SNAPSHOT,
    DeviceStatus,
    Process,
    Reading,
    Sample,
    Snapshot,
    State,
)
from andon.model.naming import device_labels

T = TypeVar("T")
_THROTTLE = SAMPLE_VALUES.index("throttle")


def snapshot_from_json(value: Json) -> Snapshot:
    """Reads `andon.snapshot/1`; anything else is Invalid."""
    _check_schema(value)
    given = value.get("devices") or []
    if not isinstance(given, list) or len(given) > MOST_DEVICES:
        raise Invalid(f"not a valid {SNAPSHOT}: devices is not a list of at most {MOST_DEVICES}")
    whole = {**value, "devices": [_nested(one) for one in given], "events": ()}
    try:
        found = _read(whole)
    except Wrong as wrong:
        place = wrong.place.replace("].device.", "].", 1)
        raise Invalid(f"not a valid {SNAPSHOT}: {Wrong(place, wrong.problem)}") from wrong
    return _bare(found)


def _check_schema(value: Json) -> None:
    if value.get("schema") != SNAPSHOT:
        raise Invalid(
            f"the schema is {str(value.get('schema'))[:40]!r}, not {SNAPSHOT!r}",
            hint="this file or server has another version: upgrade the older of the two",
        )


def _bare(snapshot: Snapshot) -> Snapshot:
    """Returns the snapshot without what its JSON form adds."""
    return replace(snapshot, devices=_unlabelled(_without_shares(one) for one in snapshot.devices))


def _read(whole: Json) -> Snapshot:
    """Reads a snapshot; fractions are rounded where whole numbers are expected."""
    try:
        return read(Snapshot, whole)
    except Wrong as wrong:
        if not wrong.problem.endswith("not a whole number"):
            raise
        return read(Snapshot, rounded(Snapshot, whole))


def _nested(status: object) -> object:
    """Returns the status with its device as a nested object; in the JSON both are one object."""
    return {**status, "device": status} if isinstance(status, dict) else status


def _without_shares(status: DeviceStatus) -> DeviceStatus:
    """Removes the reasons for missing shares, which are computed."""
    if status.missing.keys().isdisjoint(SHARE_NAMES):
        return status
    missing = {name: why for name, why in status.missing.items() if name not in SHARE_NAMES}
    return replace(status, missing=missing)


def _unlabelled(statuses: Iterable[DeviceStatus]) -> tuple[DeviceStatus, ...]:
    """Removes labels that the list itself determines."""
    listed = tuple(statuses)
    bare = tuple(replace(status, label="") for status in listed)
    labels = device_labels(bare)
    return tuple(
        plain if status.label == labels[status.device.uuid] else status
        for status, plain in zip(listed, bare, strict=True)
    )


_STATES = {str(state): state for state in State}  # a call of the enumeration costs ten times more


def reading_from_json(value: Json, before: Reading | None = None) -> Reading:
    """Reads what `reading_to_json` wrote, given the same `before`. A reader is trusted."""
    processes, missing = value.get("processes"), value.get("missing")
    if before is None and (processes is None or missing is None):
        raise Invalid("received a difference before a complete reading")
    return Reading(
        uuid=value["uuid"],
        sample=_sample_after(value, before.sample if before else None),
        missing=before.missing if before and missing is None else read(dict[Name, Text], missing),
        processes=(
            before.processes
            if before and processes is None
            else tuple(read(Process, process) for process in processes or ())
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


RING: Any = Annotated[tuple[tuple[Amount, Percent], ...], Meta(max_length=MOST_ITEMS)]
