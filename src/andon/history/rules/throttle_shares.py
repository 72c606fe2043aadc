"""The share of each time span in which a throttle reason applied."""

from collections.abc import Mapping, Sequence

from andon.history.rules.series import Bucket, BucketSource, throttled_series
from andon.model.throttling import IDLE, OTHER, REASONS

NAMES = (*(reason.name for reason in REASONS if reason is not IDLE), OTHER)


def throttle_shares(
    past: BucketSource, device: str, since: float, until: float, points: int
) -> tuple[list[int], dict[str, list[float | None]]]:
    """Returns the number of readings in each span, and by reason the share of them (0 to 1) in
    which it applied; None if nothing was read. A reason that never applied is left out."""
    read = past.history(device, "throttle", since, until, points)
    counts = [bucket.count for bucket in read]
    if not any(bucket.max for bucket in read):
        return counts, {}
    found = {
        name: past.history(device, throttled_series(name), since, until, points) for name in NAMES
    }
    return counts, shares(counts, found)


def shares(
    counts: Sequence[int], found: Mapping[str, Sequence[Bucket]]
) -> dict[str, list[float | None]]:
    """Returns, for each reason and span, the share of the readings in which the reason applied."""
    return {
        name: [
            round(min(bucket.count, count) / count, 4) if count else None
            for bucket, count in zip(buckets, counts, strict=True)
        ]
        for name, buckets in found.items()
        if any(bucket.count for bucket in buckets)
    }
