"""Which device to choose: a score for each, and the free ones, best first."""

from collections.abc import Iterable

from andon.model.device import DeviceStatus

MEMORY_WEIGHT = 0.6
UTILIZATION_WEIGHT = 0.4
MAX_UTILIZATION_PERCENT = 50.0


def score(
    free_bytes: int | None,
    total_bytes: int | None,
    utilization_percent: float | None,
    memory_weight: float = MEMORY_WEIGHT,
    utilization_weight: float = UTILIZATION_WEIGHT,
) -> float | None:
    """How suitable a device is: 1 is empty and idle; None where a reading is unknown."""
    if free_bytes is None or not total_bytes or utilization_percent is None:
        return None
    idle_percent = 100 - utilization_percent
    return memory_weight * free_bytes / total_bytes + utilization_weight * idle_percent / 100


def available(
    statuses: Iterable[DeviceStatus],
    min_memory_bytes: int | None = None,
    max_utilization: float = MAX_UTILIZATION_PERCENT,
    memory_weight: float = MEMORY_WEIGHT,
    utilization_weight: float = UTILIZATION_WEIGHT,
) -> list[DeviceStatus]:
    """The devices that are free, best first; unknown counts as not free."""
    everyone = list(statuses)
    divided = {status.device.parent for status in everyone}
    ranked = []
    for status in everyone:
        if status.device.uuid in divided or not _fits(status, min_memory_bytes, max_utilization):
            continue
        points = _points(status, memory_weight, utilization_weight)
        if points is not None:
            ranked.append((-points, status.device.index, status))
    return [status for _, _, status in sorted(ranked, key=lambda entry: entry[:2])]


def _fits(status: DeviceStatus, min_memory_bytes: int | None, max_utilization: float) -> bool:
    sample = status.sample
    if sample is None or not status.answered or not status.visible:
        return False
    if sample.utilization_percent is None or sample.utilization_percent > max_utilization:
        return False
    return sample.memory_free_bytes is not None and (
        min_memory_bytes is None or sample.memory_free_bytes >= min_memory_bytes
    )


def _points(status: DeviceStatus, memory_weight: float, utilization_weight: float) -> float | None:
    sample = status.sample
    if sample is None:
        return None
    return score(
        sample.memory_free_bytes,
        status.device.memory_total_bytes,
        sample.utilization_percent,
        memory_weight,
        utilization_weight,
    )
