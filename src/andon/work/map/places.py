"""Where the workers of a map work: each has a lease of its own, or no device at all."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import Conflict
from andon.leases.availability import Availability
from andon.leases.book.hold import LeaseHold
from andon.leases.book.lease_book import Book
from andon.leases.book.rejoin import Presence, shorten
from andon.leases.book.release_notes import read_note
from andon.leases.granter import Grant, Granter, LeaseTerms, Progress
from andon.leases.rules.environment import NO_DEVICE, environment
from andon.model.device import Device, Snapshot
from andon.model.execution import UNLEASED
from andon.model.lease import DeviceRequest
from andon.model.run.record import RunDevice
from andon.runs.rules.sampled import run_devices
from andon.work.rules.map.template import NO_GPU

AT_ONCE_SECONDS = 0.0


class WorkPlace(Struct):
    """One worker's devices, and what its commands find in their environment."""

    label: str
    environment: Mapping[str, str]
    devices: tuple[RunDevice, ...] = ()
    snapshot: Snapshot | None = None
    held: LeaseHold | None = None
    waited_seconds: float = 0.0
    give_back: Callable[[], None] | None = None  # where the lease is held elsewhere
    leaving: str | None = None  # why its lease ends before the items do
    _presence: Presence | None = None
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def descriptors(self) -> tuple[int, ...]:
        """Returns the lock of the worker's lease."""
        return () if self.held is None else self.held.hold.descriptors

    @property
    def work_label(self) -> str:
        """Returns the label by which containers are found: the id of the lease."""
        return UNLEASED + os.urandom(4).hex() if self.held is None else self.held.lease.id

    def whole_devices(self) -> list[Device]:
        """Returns the devices with all that is known of them, in their order."""
        known = () if self.snapshot is None else self.snapshot.devices
        found = {status.device.uuid: status.device for status in known}
        return [found[device.uuid] for device in self.devices]

    def make_room(self) -> None:
        """Makes room in the lease before a further container is named there."""
        if self.held is not None:
            with self._writing:
                shorten(self.held.hold)

    def check(self, notify: Callable[[str], None]) -> None:
        """Checks about once a second whether the lease is still in the book, and still ours."""
        if self.held is None or self.leaving is not None:
            return
        self._presence = self._presence or Presence(self.held.hold, notify)
        with self._writing:
            self._presence.check()
        left = self.held.left_seconds()
        if left is not None and left <= 0:
            self.leaving = f"lease {self.held.lease.id} expired"

    def is_released(self) -> bool:
        """Whether someone released this lease; a signal alone does not show which one was meant."""
        if self.held is None or self.leaving is not None:
            return False
        note = read_note(self.held.hold)
        if note is not None:
            self.leaving = note.words(self.held.lease.id)
        return note is not None

    def release(self) -> None:
        if self.held is not None:
            self.held.release()
        if self.give_back is not None:
            self.give_back()


class WorkPlaces(Protocol):
    """Provides places one by one."""

    @property
    def most(self) -> int:
        """Returns how many places there can be at once."""

    def first(self) -> WorkPlace:
        """Waits for the first one."""

    def at_once(self, taken: Sequence[WorkPlace]) -> WorkPlace | None:
        """Returns another place, if there is one now."""

    def later(self, taken: Sequence[WorkPlace], unwanted: Callable[[], bool]) -> WorkPlace | None:
        """Waits for another place; None if there will be none."""


class CpuPlaces(Struct):
    """WorkPlaces without a device."""

    most: int

    def first(self) -> WorkPlace:
        return WorkPlace(NO_GPU, NO_DEVICE)

    def at_once(self, taken: Sequence[WorkPlace]) -> WorkPlace | None:
        return self.first() if len(taken) < self.most else None

    def later(self, taken: Sequence[WorkPlace], unwanted: Callable[[], bool]) -> WorkPlace | None:
        return None


class LeasedPlaces(Struct):
    """WorkPlaces with a lease each, for `request.least` devices."""

    availability: Availability
    request: DeviceRequest
    terms: LeaseTerms
    most_devices: int | None = None  # None: all that there are
    per_device: int = 1
    wait_seconds: float = 0.0  # for the first
    waiting: Callable[[Progress], None] | None = None
    _most: int | None = None
    _book: Book = field(default_factory=Book)

    @property
    def most(self) -> int:
        """Returns how many places there can be, also on devices that others hold now."""
        if self._most is None:
            found = self.availability.offer(self._book, self.request)
            devices = len(found.need.eligible)
            if self.most_devices is not None:
                devices = min(devices, self.most_devices)
            self._most = max(1, devices // self.request.least) * self.per_device
        return self._most

    def first(self) -> WorkPlace:
        return self._place(
            self._granter().grant(self.request, self.terms, self.wait_seconds, self.waiting)
        )

    def at_once(self, taken: Sequence[WorkPlace]) -> WorkPlace | None:
        if len(taken) >= self.most:
            return None
        offer = self.availability.offer(self._book, self._wanted(taken))
        if not offer.choice.chosen:
            return None
        try:
            granted = self._granter().grant(self._wanted(taken), self.terms, AT_ONCE_SECONDS)
        except Conflict:  # someone took it meanwhile: `later` waits for the next
            return None
        return self._place(granted)

    def later(self, taken: Sequence[WorkPlace], unwanted: Callable[[], bool]) -> WorkPlace | None:
        if len(taken) >= self.most:
            return None
        granted = self._granter().grant(self._wanted(taken), self.terms, None, None, unwanted)
        return self._place(granted)

    def _granter(self) -> Granter:
        return Granter(self._book, self.availability)

    def _wanted(self, taken: Sequence[WorkPlace]) -> DeviceRequest:
        """Leaves out devices that have all the workers they may have."""
        count = Counter(device.uuid for place in taken for device in place.devices)
        full = tuple(uuid for uuid, workers in count.items() if workers >= self.per_device)
        request = replace(self.request, exclude=(*self.request.exclude, *full))
        if not self.request.shared or self.most_devices is None or len(count) < self.most_devices:
            return request
        return replace(request, devices=tuple(count))  # no further device, only further workers

    def _place(self, grant: Grant) -> WorkPlace:
        chosen = [capacity.status.device for capacity in grant.candidates.choice.chosen]
        snapshot = grant.candidates.snapshot
        everyone = [status.device for status in snapshot.devices]
        devices = run_devices(snapshot, [device.uuid for device in chosen])
        return WorkPlace(
            ",".join(device.label for device in devices),
            environment(chosen, everyone, grant.held.lease.id),
            devices,
            snapshot,
            grant.held,
            grant.waited_seconds,
        )


def variables(place: WorkPlace, told: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a command there."""
    return {**os.environ, **place.environment, **told}
