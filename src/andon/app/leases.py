"""Sharing: what is available to whom, and the lease book that a server follows."""

import sys
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.errors import Invalid
from andon.leases.availability import Availability, TurnMemory
from andon.leases.book.lease_book import Book
from andon.leases.rules.capacity import Weights
from andon.model.device import DeviceStatus, Snapshot
from andon.model.naming import mistake_in
from andon.node.broken_devices import BrokenDevicesQuery
from andon.settings.resolution import Settings

if TYPE_CHECKING:  # not every command shares devices
    from andon.leases.tracker import LeaseTracker
    from andon.sampling.sampler import Sampler


def open_availability(
    settings: Settings,
    sample: Callable[[], Snapshot],
    *,
    simulated: bool,
    own_pids: Set[int] = frozenset(),
    broken: Callable[[], Mapping[str, str]] | None = None,
    ask_places: Callable[[], None] | None = None,
) -> "Availability":
    """Opens availability, judged from these samples; processes in `own_pids` are not strangers.

    Earlier faults of devices come from this node's server, unless `broken` has them.
    `ask_places` makes the next sample include how devices are linked.
    """

    found = Availability(
        sample,
        labels_of(settings),
        Weights(
            settings.score_memory_weight,
            settings.score_utilization_weight,
            settings.score_link_weight,
        ),
        frozenset(own_pids),
        simulated,
        broken=broken or BrokenDevicesQuery(),
        memory=TurnMemory(),
    )
    return found if ask_places is None else replace(found, ask_places=ask_places)


def open_lease_tracker(
    settings: Settings, sampler: "Sampler", open_book: "Callable[..., Book] | None" = None
) -> "LeaseTracker | None":
    """Follows the lease book for this sampler; None for a recording, which has no leases."""
    from andon.leases.tracker import POLL_SECONDS, LeaseTracker

    if settings.replay or sys.platform == "win32":
        return None
    pace = max(settings.interval_seconds, POLL_SECONDS)
    ledger = LeaseTracker(sampler.subscribe(pace, size=2), open_book=open_book)
    sampler.mark_by(ledger.marked)
    return ledger


def refuse_ambiguous_names(settings: Settings, statuses: Sequence[DeviceStatus]) -> None:
    """Invalid if a setting names a device by something that several devices here have."""
    named = [("alerts.override", one.device) for one in settings.alerts_overrides if one.device]
    named += [("alerts.notifier", d) for one in settings.alerts_notifiers for d in one.devices]
    named += [("share.labels", d) for devices in labels_of(settings).values() for d in devices]
    found = ((where, mistake_in(str(name), statuses)) for where, name in named)
    mistakes = tuple(f"{where}: {wrong}" for where, wrong in found if wrong is not None)
    if mistakes:
        raise Invalid(mistakes[0], hint="use an index or a full UUID", mistakes=mistakes)


def labels_of(settings: Settings) -> dict[str, list[str]]:
    """Returns labels by device: `quiet:3` labels device 3 quiet; both sides may have several."""
    out: dict[str, list[str]] = {}
    for item in settings.share_labels:
        label, _, device = item.partition(":")
        if not label or not device:
            raise Invalid(f"share.labels: {item!r} is not LABEL:DEVICE", hint="for example quiet:3")
        out.setdefault(label, []).append(device)
    return out
