"""Who used how much over a span of time: hours, energy and idle share per user."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from andon.core.history.intervals import UsageInterval
from andon.core.history.series import Bucket
from andon.core.sampling.idleness import ZERO_READING

UNKNOWN_USER = "–"


@dataclass(slots=True)
class UserUsage:
    """One user's share. The energy of a shared device is divided among its users."""

    user: str
    device_seconds: float = 0.0
    known_seconds: float = 0.0  # of these, when utilisation is known
    idle_seconds: float = 0.0
    energy_joules: float = 0.0

    @property
    def idle_share(self) -> float | None:
        return self.idle_seconds / self.known_seconds if self.known_seconds else None


def by_user(
    uses: Iterable[UsageInterval],
    busy: Mapping[str, Sequence[Bucket]],
    power: Mapping[str, Sequence[Bucket]],
) -> list[UserUsage]:
    """The largest first. `busy` and `power` are a device's utilisation and watts in the same
    buckets; an empty bucket counts neither as idle nor as energy."""
    listed = list(uses)
    found: dict[str, UserUsage] = {}
    for device, buckets in busy.items():
        mine = [use for use in listed if use.device == device]
        watts = power.get(device, ())
        for place, bucket in enumerate(buckets):
            mean = watts[place].mean if place < len(watts) else None
            _count(found, _present(mine, bucket), bucket, mean)
    return sorted(found.values(), key=lambda usage: (-usage.device_seconds, usage.user))


def _present(uses: Sequence[UsageInterval], bucket: Bucket) -> dict[str, float]:
    """user -> seconds within the bucket; several processes of one user count once."""
    out: dict[str, float] = {}
    for use in uses:
        seconds = min(use.last, bucket.until) - max(use.first, bucket.since)
        if seconds > 0:
            user = use.user or UNKNOWN_USER
            out[user] = max(out.get(user, 0.0), seconds)
    return out


def _count(
    found: dict[str, UserUsage], present: Mapping[str, float], bucket: Bucket, watts: float | None
) -> None:
    for user, seconds in present.items():
        usage = found.setdefault(user, UserUsage(user))
        usage.device_seconds += seconds
        if bucket.count:
            usage.known_seconds += seconds
            usage.idle_seconds += seconds if bucket.max == ZERO_READING else 0.0
        if watts is not None:
            usage.energy_joules += watts * seconds / len(present)
