"""Whether each device is available: one verdict, from the obstacles that a grant meets."""

from collections.abc import Iterable, Mapping, Sequence

from andon.leases.rules.capacity import DeviceCapacity, Surroundings
from andon.leases.rules.capacity import capacities as capacities_of
from andon.leases.rules.choice import Candidate, available, obstacle
from andon.leases.rules.eligibility import (
    MAX_UTILIZATION_PERCENT,
    Obstacle,
    ObstacleKind,
    obstacles_of,
)
from andon.model.device import Device, DeviceStatus
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Need
from andon.model.naming import device_labels
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.units import plain

NAME_CHARACTERS, REASON_CHARACTERS = 200, 400

ANY = DeviceRequest()
"""One whole device, whichever: what the verdict of a device without a request is about."""

_KINDS = {
    ObstacleKind.LEASED: VerdictKind.HELD,
    ObstacleKind.ORPHANED: VerdictKind.HELD,
    ObstacleKind.UNREADABLE: VerdictKind.HELD,
    ObstacleKind.UNLEASED_PROCESS: VerdictKind.IN_USE,
    ObstacleKind.BUSY: VerdictKind.IN_USE,
    ObstacleKind.FULL: VerdictKind.IN_USE,
}
"""Every other obstacle withholds the device."""


def need_of_any(capacities: Sequence[DeviceCapacity]) -> Need:
    """Returns the need of a request for any one device, even if none is eligible."""
    return _need_of_any(obstacles_of([capacity.status for capacity in capacities], ANY, {}))


def _need_of_any(never: Mapping[str, Obstacle | None]) -> Need:
    return Need(frozenset(uuid for uuid, why in never.items() if why is None))


def all_masked(capacities: Sequence[DeviceCapacity], doubt: str) -> dict[str, Obstacle]:
    """Marks all devices as masked: it is not certain which of them this process may use."""
    return dict.fromkeys((one.uuid for one in capacities), Obstacle(ObstacleKind.MASKED, doubt))


def verdicts(
    capacities: Sequence[DeviceCapacity], taken: Mapping[str, Obstacle]
) -> tuple[DeviceVerdict, ...]:
    """Returns the verdict on each device for a request of one whole device; `taken` is promised."""
    statuses = [capacity.status for capacity in capacities]
    labels, never = device_labels(statuses), obstacles_of(statuses, ANY, {})
    need = _need_of_any(never)
    return tuple(
        verdict(
            one.status.device,
            labels[one.uuid],
            never[one.uuid] or obstacle(one, need) or taken.get(one.uuid),
        )
        for one in capacities
    )


def by_readings(statuses: Sequence[DeviceStatus]) -> tuple[DeviceVerdict, ...]:
    """Returns the verdicts where nothing is leased, queued or cordoned."""
    return verdicts(capacities_of(statuses, Surroundings()), {})


def in_use(statuses: Sequence[DeviceStatus]) -> tuple[object, ...]:
    """Returns which devices answer and what runs there, to see whether verdicts may change."""
    return tuple(
        (
            one.device.uuid,
            one.state,
            one.visible,
            one.sample is not None and bool(one.sample.utilization_percent),
            tuple([process.pid for process in one.processes]),
        )
        for one in statuses
    )


def verdicts_for(
    candidates: Iterable[Candidate], statuses: Sequence[DeviceStatus]
) -> tuple[DeviceVerdict, ...]:
    """Returns the verdict on each device for a given request."""
    devices, labels = {s.device.uuid: s.device for s in statuses}, device_labels(statuses)
    return tuple(verdict(devices[c.uuid], labels[c.uuid], c.obstacle) for c in candidates)


def available_by_readings(
    statuses: Sequence[DeviceStatus],
    memory_bytes: int | None = None,
    max_utilization: float = MAX_UTILIZATION_PERCENT,
    even_if_used: bool = False,
) -> list[DeviceCapacity]:
    """Returns the devices that are available by readings alone, best first."""
    around = Surroundings(max_utilization_percent=max_utilization)
    found = capacities_of(statuses, around)
    request = DeviceRequest(memory_bytes=memory_bytes)
    never = obstacles_of(statuses, request, {})
    eligible = frozenset(uuid for uuid, why in never.items() if why is None)
    need = Need(eligible, memory_bytes=memory_bytes, even_if_used=even_if_used)
    return available(found, need)


def freed(one: DeviceVerdict) -> DeviceVerdict:
    return DeviceVerdict(one.uuid, one.index, one.label, VerdictKind.FREE)


def withheld(one: DeviceVerdict, found: Obstacle) -> DeviceVerdict:
    return DeviceVerdict(
        one.uuid, one.index, one.label, VerdictKind.WITHHELD, found.by, None, found.until,
        str(found.kind), plain(found.reason, REASON_CHARACTERS),
    )  # fmt: skip


def verdict(device: Device, label: str, found: Obstacle | None) -> DeviceVerdict:
    if found is None:
        return DeviceVerdict(device.uuid, device.index, label, VerdictKind.FREE)
    kind = _KINDS.get(found.kind, VerdictKind.WITHHELD)
    if found.kind is ObstacleKind.FULL and found.lease is not None:
        kind = VerdictKind.HELD  # the rest of it is too small
    return DeviceVerdict(
        device.uuid,
        device.index,
        label,
        kind,
        None if found.by is None else plain(found.by, NAME_CHARACTERS),
        None if found.lease is None else plain(found.lease, NAME_CHARACTERS),
        found.until,
        str(found.kind),
        plain(found.reason, REASON_CHARACTERS),
    )
