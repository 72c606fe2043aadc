"""Checks for commands and programs: which cards, under which lease, with which plan."""

import os
from collections.abc import Sequence

from msgspec import Struct

from andon.checks.checking import CardToCheck, Checker, SnapshotSource, seconds_of
from andon.checks.rules.plan import CheckMode, plan_for
from andon.errors import Unavailable
from andon.fleet.siblings import fleet_checks
from andon.leases.availability import Availability
from andon.leases.placement import on_lease
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.model.check import CardResult, CheckList
from andon.model.device import DeviceStatus, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.naming import devices_named
from andon.node.rest import Notify
from andon.units import human_seconds


class CheckRequest(Struct, frozen=True):
    """What to check, as typed."""

    devices: Sequence[str] = ()
    every: bool = False  # also a line for those that cannot be checked
    mode: CheckMode = CheckMode.USUAL
    burn_seconds: float = 0.0
    even_if_used: bool = False
    hub: str | None = None  # whose cards are compared with; None: that of this node, if it has one
    token_file: str | None = None


def check_cards(
    sampler: SnapshotSource,
    availability: Availability,
    request: CheckRequest,
    notify: Notify = lambda text: None,
) -> CheckList:
    """Checks the named cards, or those that are free; inside a lease of our own, its cards."""
    plan = plan_for(request.mode, request.burn_seconds)
    checker = Checker(
        sampler,
        plan,
        request.even_if_used,
        fleet=lambda found: fleet_checks(found, request.hub, request.token_file, notify),
    )
    snapshot = sampler.once(with_host=False)
    if not snapshot.devices:
        fault = snapshot.faults[0] if snapshot.faults else None
        raise Unavailable(
            fault.reason if fault else "no GPU found", hint=fault.hint if fault else ""
        )
    statuses, left_out = checker.candidates(snapshot, _wanted(snapshot, request.devices))
    if lease := os.environ.get(LEASE_VARIABLE):
        cards = _on_lease(checker, lease, availability, snapshot, statuses)
    else:
        cards, refused = checker.lease(availability, snapshot, statuses)
        left_out += refused
    found = list[CardResult]()
    if cards:
        labels = ", ".join(card.begin.label for card in cards)
        notify(f"checking GPU {labels}: about {human_seconds(seconds_of(plan))}")
        found = checker.run(cards)
    for trouble in checker.troubles:
        notify(trouble)
    shown = [*(one for one in left_out if one.verdict.is_bad), *found]
    if request.devices or request.every or not shown:
        shown = [*left_out, *found]
    return CheckList(tuple(shown), tuple(checker.peers))


def _wanted(snapshot: Snapshot, devices: Sequence[str]) -> list[str] | None:
    if not devices:
        return None
    return list({uuid for name in devices for uuid in devices_named(name, snapshot.devices)})


def _on_lease(
    checker: Checker,
    lease: str,
    availability: Availability,
    snapshot: Snapshot,
    statuses: Sequence[DeviceStatus],
) -> list[CardToCheck]:
    placement = on_lease(lease, availability.view(), DeviceRequest())
    held = {share.uuid for share in placement.lease.shares} if placement.lease else set()
    found = [one for one in statuses if one.device.uuid in held]
    return [CardToCheck(checker.begin(snapshot, one)) for one in found]
