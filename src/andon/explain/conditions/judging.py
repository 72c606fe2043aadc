"""What a condition is judged by: the readings of a device, its state, the node, a lease.

A judge returns None if all rungs are calm, as for a healthy subject. Each runs in every sample, so
a healthy subject costs only comparisons. Percentages are judged as they are shown, to a tenth: a
threshold counts as reached when the value rounds to it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct

from andon.explain.conditions.description import Description
from andon.explain.conditions.finding import Finding
from andon.explain.evidence.observation import (
    HeldDevices,
    PreviousLease,
    ReservedDevices,
    Sharing,
)
from andon.explain.evidence.view import View
from andon.model.device import DeviceStatus, Fault, Sample, Snapshot, State
from andon.model.event import Event, EventKind
from andon.model.thresholds import Thresholds
from andon.model.vendors import vendor_of_backend

TENTH = 0.05  # half of the last digit shown
Statuses = Mapping[str, DeviceStatus]


class SharedDevice(NamedTuple):
    """A device as the lease book sees it, for one sample."""

    status: DeviceStatus
    holders: tuple[HeldDevices, ...]
    sharing: Sharing
    former: PreviousLease | None  # the lease that ended recently, or that its alert remembers
    divided: bool = False


class DeviceReservation(NamedTuple):
    """A device of a reservation that is not over, for one sample."""

    shared: SharedDevice
    reserved: ReservedDevices
    at: float
    figures: Thresholds


class OnReading(Struct, frozen=True):
    """Judged by the readings of a device that answers; asleep, it is calm."""

    judge: Callable[[View], Finding | None]
    reasons: frozenset[str] | None = None
    """The throttle reasons without which it cannot hold: it is judged while one is active, or
    unknown. An empty set: it holds only while there is none."""


class OnHeld(Struct, frozen=True):
    """Judged by the readings of a device that a lease holds, while its utilisation is 0."""

    judge: Callable[[View], Finding]


class OnState(Struct, frozen=True):
    """Judged by the state of a device that does not answer."""

    judge: Callable[[View], Finding | None]
    hides_all: bool = False
    """Nothing else is sent of the device and its instances meanwhile; otherwise only what follows
    from readings is not, once it fires: an event may be the cause."""
    of_all: State | None = None
    """The state in which all devices of a vendor are one finding about its driver."""
    all_silent: Finding | None = None


class Counted(NamedTuple):
    """What a count of errors means."""

    finding: Finding | None
    was_reset: bool = False


class OnEvents(Struct, frozen=True):
    """Judged by what devices report on their own."""

    takes: frozenset[EventKind]
    judge: Callable[[Finding | None, Event], Finding]
    """It gets what an earlier event of the same sample was judged to be."""
    once: bool = True  # the same event may arrive from two sources: it is judged once
    until_it_works: bool = False  # one from before a boot stays until the device works
    count: Callable[[Sample], int | None] | None = None
    """The device's own counter of errors; one condition has one."""
    judge_count: Callable[[int | None, int], Counted] | None = None
    """It gets the count before, None at first sight, and the one that differs from it."""
    present: Callable[[View], Finding | None] | None = None
    """What the readings show of it: it lights the lamp even if its alert has ended."""


class OnNode(Struct, frozen=True):
    """Judged by a whole snapshot: the node itself, its drivers."""

    judge: Callable[[Snapshot, Thresholds], Finding | None]


class OnFault(Struct, frozen=True):
    """Judged by a reader that failed: its subject is the vendor's driver."""

    judge: Callable[[Fault, Snapshot], Finding | None]


class OnReport(Struct, frozen=True):
    """Reported by a part of andon itself, under the condition's name."""


class OnLease(Struct, frozen=True):
    """Judged by a lease and its devices."""

    judge: Callable[[HeldDevices, Statuses, Thresholds], Finding | None]
    ends_with_lease: bool = True  # at once; otherwise its calm begins then


class OnSharing(Struct, frozen=True):
    """Judged by a device, its holders and its processes outside a lease."""

    judge: Callable[[SharedDevice], Finding | None]
    after_lease: bool = False  # it can hold where a lease ended, not only where one is held


class OnReserved(Struct, frozen=True):
    """Judged by a device of a reservation, its holders and its processes."""

    judge: Callable[[DeviceReservation], Finding | None]


class OnReservation(Struct, frozen=True):
    """Judged by a reservation and the leases on its devices."""

    judge: Callable[[ReservedDevices, tuple[HeldDevices, ...], float, Thresholds], Finding | None]


class OnLeaseEnd(Struct, frozen=True):
    """Judged by a lease and another user's reservation in whose way its extension would be."""

    judge: Callable[[HeldDevices, ReservedDevices, float, Thresholds], Finding | None]


class OnRequest(Struct, frozen=True):
    """Judged only when somebody runs `why`."""

    explain: Callable[[View], Description | None]


Judged = (
    OnReading | OnHeld | OnState | OnEvents | OnNode | OnFault | OnReport | OnLease | OnSharing
    | OnReserved | OnReservation | OnLeaseEnd | OnRequest
)  # fmt: skip


def found_on(judged: Judged | None, view: View, of_node: Thresholds) -> Finding | None:
    """Returns the findings about a device from its readings, state and driver, and about its node
    with the node's thresholds. A condition that needs a lease book or events finds nothing here."""
    status = view.status
    if isinstance(judged, OnReading):
        return judged.judge(view) if status.answered else None
    if isinstance(judged, OnState):
        return judged.judge(view)
    if isinstance(judged, OnNode):
        return judged.judge(view.snapshot, of_node)
    if isinstance(judged, OnFault):
        of_driver = (judged.judge(fault, view.snapshot) for fault in drivers_faults(view))
        return next((one for one in of_driver if one is not None), None)
    if isinstance(judged, OnEvents) and judged.present is not None:
        return judged.present(view)
    return None


def drivers_faults(view: View) -> list[Fault]:
    """Returns the driver's faults, for a device that is lost."""
    if view.status.state is not State.LOST:
        return []
    vendor = view.device.vendor
    return [one for one in view.snapshot.faults if vendor_of_backend(one.source).name == vendor]
