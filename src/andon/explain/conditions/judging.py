"""What a condition is judged by: the readings of a device, its state, the node, a lease.

A judge returns None if all rungs are calm, as for a healthy subject. Each runs in every sample, so
a healthy subject costs only comparisons. Percentages are judged as they are shown, to a tenth: a
threshold counts as reached when the value rounds to it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec import Struct

from andon.explain.conditions.device_view import DeviceView
from andon.explain.conditions.judgement import Judgement
from andon.explain.conditions.observation import HeldDevices, PreviousLease, Sharing
from andon.model.device import DeviceStatus, Fault, Snapshot
from andon.model.thresholds import Thresholds

TENTH = 0.05  # half of the last digit shown
Statuses = Mapping[str, DeviceStatus]


class SharedDevice(NamedTuple):
    """A device as the lease book sees it, for one sample."""

    status: DeviceStatus
    holders: tuple[HeldDevices, ...]
    sharing: Sharing
    former: PreviousLease | None  # the lease that ended recently, or that its alert remembers
    divided: bool = False


class OnReading(Struct, frozen=True):
    """Judged by the readings of a device that answers; asleep, it is calm."""

    judge: Callable[[DeviceView], Judgement | None]
    reasons: frozenset[str] | None = None
    """The throttle reasons without which it cannot hold: it is judged while one is active, or
    unknown. An empty set: it holds only while there is none."""


class OnHeld(Struct, frozen=True):
    """Judged by the readings of a device that a lease holds, while its utilisation is 0."""

    judge: Callable[[DeviceView], Judgement]


class OnState(Struct, frozen=True):
    """Judged by the state of a device that does not answer."""

    judge: Callable[[DeviceStatus], Judgement | None]


class OnEvents(Struct, frozen=True):
    """Judged by what devices report on their own; `alerts/rules/events` takes it in."""


class OnNode(Struct, frozen=True):
    """Judged by a whole snapshot: the node itself, its drivers."""

    judge: Callable[[Snapshot, Thresholds], Judgement | None]


class OnFault(Struct, frozen=True):
    """Judged by a reader that failed: its subject is the vendor's driver."""

    judge: Callable[[Fault, Snapshot], Judgement | None]


class OnReport(Struct, frozen=True):
    """A part of andon reports it, under the name of the condition."""


class OnLease(Struct, frozen=True):
    """Judged by a lease and its devices."""

    judge: Callable[[HeldDevices, Statuses, Thresholds], Judgement | None]
    ends_with_lease: bool = True  # at once; otherwise its calm begins then


class OnSharing(Struct, frozen=True):
    """Judged by a device, its holders and its processes outside a lease."""

    judge: Callable[[SharedDevice], Judgement | None]
    after_lease: bool = False  # it can hold where a lease ended, not only where one is held


Judged = OnReading | OnHeld | OnState | OnEvents | OnNode | OnFault | OnReport | OnLease | OnSharing
