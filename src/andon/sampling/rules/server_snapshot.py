"""A server's latest snapshot of this machine's devices, which completes a command's own readings.

A command that has just started does not know since when a device is silent, what it is or who
was on it: the server does.
"""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from andon.model.device import UNWATCHED, Device, DeviceStatus, Snapshot, State

INTERVAL_HEADER = "andon-interval"
"""The header with the seconds between two snapshots of the server that sends one."""
OLD_INTERVALS = 2.0
SILENT = (State.STALE, State.LOST)


class ServerSnapshot(Struct, frozen=True):
    """A server's latest snapshot, and how often it makes one."""

    snapshot: Snapshot
    interval_seconds: float

    def age_seconds(self, now: float) -> float:
        return max(0.0, now - self.snapshot.at)

    def is_old(self, now: float) -> bool:
        return self.age_seconds(now) > OLD_INTERVALS * self.interval_seconds

    @property
    def has_everything(self) -> bool:
        """Whether it has the readings that are taken only while someone is watching. Simulated
        devices can be read nowhere else, so theirs count as complete."""
        if self.snapshot.simulated:
            return True
        answered = (status for status in self.snapshot.devices if status.answered)
        return all(status.missing.get("sm_active_percent") != UNWATCHED for status in answered)


def parse_interval(text: str | None, usual: float) -> float:
    """Returns the seconds in the header; the usual interval if a server sends none."""
    try:
        found = float(text or "")
    except ValueError:
        return usual
    return found if math.isfinite(found) and found > 0 else usual


def with_known(fresh: Snapshot, seen: Snapshot) -> Snapshot:
    """Returns a new snapshot in which silent devices have what the server knows of them."""
    known = {status.device.uuid: status for status in seen.devices}
    read = {status.device.uuid for status in fresh.devices}
    others = [one for one in seen.devices if one.device.uuid not in read and not one.device.parent]
    pairs = (
        (one, known.get(one.device.uuid) or _unnamed(one.device, others)) for one in fresh.devices
    )
    devices = tuple(
        now if before is None or now.state not in SILENT else _remembered(now, before)
        for now, before in pairs
    )
    return replace(fresh, devices=devices)


def _unnamed(device: Device, others: Sequence[DeviceStatus]) -> DeviceStatus | None:
    """Returns the server's device for one never described, by its address or else its index."""
    if not device.uuid.startswith(f"{device.vendor}@"):
        return None
    wanted = (device.vendor, device.pci or device.index)
    return next(
        (
            one
            for one in others
            if (one.device.vendor, one.device.pci if device.pci else one.device.index) == wanted
        ),
        None,
    )


def _remembered(now: DeviceStatus, before: DeviceStatus) -> DeviceStatus:
    from andon.sampling.rules.roster import users_of  # rarely needed

    known = replace(before, device=replace(before.device, index=now.device.index))
    if before.state is now.state:
        return known
    return replace(
        known, state=now.state, since=now.since, reason=now.reason, hint=now.hint, processes=(),
        last_users=before.last_users or users_of(before.processes),
    )  # fmt: skip
