"""Which devices do nothing, and for how long."""

from collections.abc import Sequence

from andon.history.rules.series import Bucket
from andon.model.device import DeviceStatus, Snapshot


def idle_devices(snapshot: Snapshot) -> list[DeviceStatus]:
    """Returns the devices on which nothing runs."""
    return [one for one in snapshot.devices if load_of(one) == 0]


def load_of(status: DeviceStatus) -> float | None:
    """Returns the utilisation of a whole device; None for a part of one, or if it is not known."""
    whole = status.device.parent is None and status.answered
    return status.sample.utilization_percent if whole and status.sample is not None else None


def idle_seconds(buckets: Sequence[Bucket], now: float) -> float | None:
    """Returns for how long nothing ran; None if that is not known."""
    known = [one for one in buckets if one.count]
    if not known:
        return None
    busy = [one.until for one in known if one.max]
    return max(0.0, now - (max(busy) if busy else known[0].since))
