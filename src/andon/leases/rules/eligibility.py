"""Which devices can satisfy a request at all: not masked, excluded, too small or unnamed."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import Gone, Unavailable
from andon.model.device import Device, DeviceStatus, Fault, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Need
from andon.model.naming import device_named, devices_named, is_cuda_number, titles
from andon.sampling.rules.masks import leading_number
from andon.units import counted, distinct_bytes, human_bytes

# Why a device is not available: every possible reason, with a sentence that names who and what.


class ObstacleKind(StrEnum):
    """The kind of an obstacle, in one word."""

    MASKED = "masked"  # hidden from this process
    NOT_REQUESTED = "not_requested"  # not among the devices requested
    PARTITIONED = "partitioned"  # a board cut into instances
    TOO_SMALL = "too_small"  # its total memory is too small
    LOST = "lost"
    STALE = "stale"
    UNKNOWN = "unknown"  # a reading is missing: unknown is not free
    ECC = "ecc"
    BROKEN = "broken"  # it reported an error that means it is broken
    UNATTRIBUTED_MEMORY = "unattributed_memory"  # memory used by no visible process
    CORDONED = "cordoned"
    LEASED = "leased"
    ORPHANED = "orphaned"
    UNREADABLE = "unreadable"
    UNLEASED_PROCESS = "unleased_process"  # a process without a lease
    BUSY = "busy"  # busy, with no visible process
    FULL = "full"
    NEXT = "next"  # for another user ahead in the queue
    RESERVED = "reserved"  # by another user, for now or a time to come


NEVER = frozenset(
    {
        ObstacleKind.MASKED,
        ObstacleKind.NOT_REQUESTED,
        ObstacleKind.PARTITIONED,
        ObstacleKind.TOO_SMALL,
    }
)
"""Nothing that happens on the device removes these."""

HEALTH = frozenset(
    {
        ObstacleKind.LOST,
        ObstacleKind.STALE,
        ObstacleKind.UNKNOWN,
        ObstacleKind.ECC,
        ObstacleKind.BROKEN,
        ObstacleKind.UNATTRIBUTED_MEMORY,
        ObstacleKind.CORDONED,
    }
)
"""These end when the device is repaired, not when its work ends."""


class Obstacle(Struct, frozen=True):
    """One reason; `until` is when it is expected to end, `by` the user behind it."""

    kind: ObstacleKind
    reason: str  # a sentence that names who and what
    until: float | None = None
    by: str | None = None
    lease: str | None = None


BALANCE = 0.8  # the smallest free memory of a group, as a share of the largest

Labels = Mapping[str, Sequence[str]]
"""A label -> the names of the devices that have it."""


def obstacles_of(
    statuses: Sequence[DeviceStatus], request: DeviceRequest, labels: Labels
) -> dict[str, Obstacle | None]:
    """Returns why each device can never satisfy the request; None if it can."""
    filters = _filters(statuses, request, labels)
    excluded = {uuid for name in request.exclude for uuid in devices_named(name, statuses)}
    divided = {status.device.parent for status in statuses}
    return {
        status.device.uuid: _obstacle(status, request, filters, excluded, divided)
        for status in statuses
    }


def need_of(
    statuses: Sequence[DeviceStatus], request: DeviceRequest, found: Mapping[str, Obstacle | None]
) -> Need:
    """The need of the request on these devices; raises Unavailable if it can never be satisfied."""
    eligible = frozenset(uuid for uuid, bar in found.items() if bar is None)
    if len(eligible) < request.least:
        raise _impossible(statuses, request, found, len(eligible))
    if request.every:
        whole = len(eligible)
        request = replace(request, least=whole, most=whole, balanced=False)
    totals = [s.device.memory_total_bytes for s in statuses if s.device.uuid in eligible]
    if request.balanced and not can_balance(totals, request.least):
        raise Unavailable(
            f"{count_text(request)} requested, but no such group has similar memory sizes",
            hint="--unbalanced allows devices of different sizes, --model selects one kind",
        )
    return Need(
        eligible,
        request.least,
        request.most,
        request.memory_bytes,
        request.shared,
        request.balanced,
        request.even_if_used,
    )


def settled(
    request: DeviceRequest, statuses: Sequence[DeviceStatus], labels: Labels
) -> DeviceRequest:
    """Returns the request for another process, which may have other masks: CUDA's numbers as
    UUIDs. Raises what `need_of` does if the request can never be met."""

    def names(given: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            device_named(one, statuses).device.uuid if is_cuda_number(one) else one for one in given
        )

    if request.least > 0:
        need_of(statuses, request, obstacles_of(statuses, request, labels))
    return replace(
        request,
        devices=names(request.devices),
        exclude=names(request.exclude),
        prefer=names(request.prefer),
    )


def can_balance(totals: Sequence[int | None], count: int) -> bool:
    """Whether that many devices have similar sizes when empty; True where a size is unknown."""
    known = sorted((total for total in totals if total is not None), reverse=True)
    if count < 2 or len(known) < len(totals):
        return True
    groups = zip(known, known[count - 1 :], strict=False)
    return any(smallest >= BALANCE * largest for largest, smallest in groups)


def empty_bytes(status: DeviceStatus) -> int | None:
    """The memory of a device without any work on it; the driver's own memory is not available."""
    total = status.device.memory_total_bytes
    reserved = (status.sample.memory_reserved_bytes or 0) if status.sample else 0
    return None if total is None else total - reserved


def preferred(statuses: Sequence[DeviceStatus], request: DeviceRequest, labels: Labels) -> set[str]:
    """Returns the devices to choose first: by label, model or name."""
    return {uuid for term in request.prefer for uuid in _meant(term, statuses, labels)}


def _meant(term: str, statuses: Sequence[DeviceStatus], labels: Labels) -> set[str]:
    if term in labels:
        return _labelled(term, statuses, labels)
    if leading_number(term) is None and (models := _of_model(term, statuses)):
        return models
    return devices_named(term, statuses)


def _filters(
    statuses: Sequence[DeviceStatus], request: DeviceRequest, labels: Labels
) -> list[tuple[str, set[str]]]:
    """Each filter and the devices that pass it; a device must pass them all."""
    out = []
    if request.devices:
        uuids = {uuid for name in request.devices for uuid in devices_named(name, statuses)}
        out.append((f"not among the devices {', '.join(request.devices)}", uuids))
    if request.models:
        uuids = {uuid for name in request.models for uuid in _model(name, statuses)}
        out.append((f"not of model {' or '.join(request.models)}", uuids))
    if request.labels:
        uuids = {uuid for name in request.labels for uuid in _labelled(name, statuses, labels)}
        out.append((f"not labelled {' or '.join(request.labels)}", uuids))
    return out


def _of_model(name: str, statuses: Sequence[DeviceStatus]) -> set[str]:
    text = name.lower()
    return {s.device.uuid for s in statuses if text in s.device.name.lower()}


def _model(name: str, statuses: Sequence[DeviceStatus]) -> set[str]:
    found = _of_model(name, statuses)
    if not found:
        known = ", ".join(dict.fromkeys(status.device.name for status in statuses)) or "none"
        raise Gone(f"no device here is of model {name[:80]!r}", hint=f"the models here: {known}")
    return found


def _labelled(name: str, statuses: Sequence[DeviceStatus], labels: Labels) -> set[str]:
    if name not in labels:
        known = ", ".join(sorted(labels)) or "none"
        hint = f"the labels here: {known}; set them with share.labels"
        raise Gone(f"no device has the label {name[:80]!r}", hint=hint)
    return {uuid for device in labels[name] for uuid in devices_named(device, statuses)}


def _obstacle(
    status: DeviceStatus,
    request: DeviceRequest,
    filters: Sequence[tuple[str, set[str]]],
    excluded: set[str],
    divided: set[str | None],
) -> Obstacle | None:
    uuid = status.device.uuid
    if not status.visible:
        return Obstacle(ObstacleKind.MASKED, "hidden from this process by a mask")
    if uuid in divided:
        return Obstacle(ObstacleKind.PARTITIONED, "divided into instances: request one of those")
    if uuid in excluded:
        return Obstacle(ObstacleKind.NOT_REQUESTED, "excluded")
    for reason, uuids in filters:
        if uuid not in uuids:
            return Obstacle(ObstacleKind.NOT_REQUESTED, reason)
    least, most = request.memory_bytes, empty_bytes(status)
    if least is not None and most is not None and most < least:
        has, wanted = distinct_bytes(most, least)
        return Obstacle(ObstacleKind.TOO_SMALL, f"has {has}, {wanted} requested")
    return None


def _impossible(
    statuses: Sequence[DeviceStatus],
    request: DeviceRequest,
    found: Mapping[str, Obstacle | None],
    eligible: int,
) -> Unavailable:
    requested = count_text(request)
    if not statuses:
        return no_gpu(())
    visible = sum(status.visible for status in statuses)
    names = titles(statuses)
    mistakes = tuple(
        f"{names[uuid]}: {bar.reason}" for uuid, bar in found.items() if bar is not None
    )
    if visible < request.least:
        why = f"{requested} requested, only {visible} visible"
    elif eligible == 0:
        why = "no GPU can satisfy this"
    else:
        why = f"{requested} requested, only {eligible} can satisfy this"
    return Unavailable(why, hint="andon devices lists the GPUs", mistakes=mistakes)


def given_devices(snapshot: Snapshot) -> tuple[Device, ...]:
    """Returns visible devices; a partitioned board is replaced by its partitions."""
    seen = [status.device for status in snapshot.devices if status.visible]
    parts = {device.parent for device in seen}
    return tuple(device for device in seen if device.uuid not in parts)


def no_gpu(faults: Sequence[Fault]) -> Unavailable:
    """Returns the error that there is no GPU, with the driver's own fault if there is one."""
    if not faults:
        return Unavailable(
            "no GPU found here",
            hint="andon doctor says why; to try without one: --simulate 4",
        )
    reasons = "; ".join(f"{fault.source}: {fault.reason}" for fault in faults)
    hints = [fault.hint for fault in faults if fault.hint]
    return Unavailable(
        f"no GPU can be read on this node: {reasons}",
        hint=hints[0] if hints else "andon doctor says more",
    )


def count_text(request: DeviceRequest) -> str:
    """`2 GPUs`, `2 to 4 GPUs`, `all GPUs`."""
    if request.every:
        return "all GPUs"
    if request.least == request.most:
        return counted(request.least, "GPU")
    return f"{request.least} to {request.most} GPUs"


def request_text(request: DeviceRequest) -> str:
    """Returns `2 GPUs with 40.0 GiB`."""
    size = request.memory_bytes
    return count_text(request) + ("" if size is None else f" with {human_bytes(size)}")


# How suitable a device is: its score, and the limits that decide.

MEMORY_WEIGHT = 0.6
UTILIZATION_WEIGHT = 0.4
LINK_WEIGHT = 0.2
MAX_UTILIZATION_PERCENT = 50.0


def chosen_by(linked: str | None, queued: bool = False) -> str:
    """Returns how devices were chosen, for a record: by their score, and by their links if that
    counted; `queued` for a job."""
    by = "best score: most free memory, least busy"
    if linked is not None:
        by = f"score and links: {linked}"
    return f"the queue, {by}" if queued else by


def score(
    free_bytes: int | None,
    total_bytes: int | None,
    utilization_percent: float | None,
    memory_weight: float = MEMORY_WEIGHT,
    utilization_weight: float = UTILIZATION_WEIGHT,
) -> float | None:
    """Returns how suitable a device is: 1 is empty and idle; None if a reading is unknown."""
    if free_bytes is None or not total_bytes or utilization_percent is None:
        return None
    idle_percent = 100 - utilization_percent
    return memory_weight * free_bytes / total_bytes + utilization_weight * idle_percent / 100
