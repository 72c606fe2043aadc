"""Sharing: what is available to whom, and the lease book that a server follows."""

import sys
from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING

from andon.core.settings.resolution import Settings
from andon.errors import Invalid

if TYPE_CHECKING:  # not every command shares devices
    from andon.engine.sampling.sampler import Sampler
    from andon.engine.sharing.availability import Availability
    from andon.engine.sharing.lease_tracker import LeaseTracker
    from andon.model.device import Snapshot


def open_availability(
    settings: Settings,
    sample: "Callable[[], Snapshot]",
    *,
    simulated: bool,
    own_pids: Set[int] = frozenset(),
    broken: "Callable[[], Mapping[str, str]] | None" = None,
) -> "Availability":
    """What is available, judged from these samples; processes in `own_pids` are not strangers.

    What devices reported earlier is asked of this node's server, unless `broken` knows it.
    """
    from andon.core.sharing.capacity import Weights
    from andon.engine.sharing.availability import Availability
    from andon.engine.sharing.turn_memory import TurnMemory
    from andon.host.server.broken_devices import BrokenDevicesQuery

    return Availability(
        sample,
        _labels_of(settings),
        Weights(settings.score_memory_weight, settings.score_utilization_weight),
        frozenset(own_pids),
        simulated,
        ailing=broken or BrokenDevicesQuery(),
        memory=TurnMemory(),
    )


def open_lease_tracker(settings: Settings, sampler: "Sampler") -> "LeaseTracker | None":
    """Follows the lease book for this sampler; None for a recording, which has no leases."""
    from andon.engine.sharing.lease_tracker import POLL_SECONDS, LeaseTracker

    if settings.replay or sys.platform == "win32":
        return None
    pace = max(settings.interval_seconds, POLL_SECONDS)
    ledger = LeaseTracker(sampler.subscribe(pace, size=2))
    sampler.mark_by(ledger.marked)
    return ledger


def _labels_of(settings: Settings) -> dict[str, list[str]]:
    """`quiet:3` labels device 3 quiet; both sides may have several."""
    out: dict[str, list[str]] = {}
    for item in settings.share_labels:
        label, _, device = item.partition(":")
        if not label or not device:
            raise Invalid(f"share.labels: {item!r} is not LABEL:DEVICE", hint="for example quiet:3")
        out.setdefault(label, []).append(device)
    return out
