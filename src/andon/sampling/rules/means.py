"""One mean utilisation for several devices."""

from collections.abc import Iterable

from andon.model.device import DeviceStatus


def mean_utilization(statuses: Iterable[DeviceStatus]) -> float | None:
    """The mean over the boards that answered; None if none did.

    A board counts once: by its own reading, else by the mean of its instances.
    """
    boards: dict[str, float] = {}
    instances: dict[str, list[float]] = {}
    for status in statuses:
        busy = status.sample.utilization_percent if status.answered and status.sample else None
        if busy is None:
            continue
        if status.device.parent is None:
            boards[status.device.uuid] = busy
        else:
            instances.setdefault(status.device.parent, []).append(busy)
    means = {parent: sum(busy) / len(busy) for parent, busy in instances.items()} | boards
    return sum(means.values()) / len(means) if means else None
