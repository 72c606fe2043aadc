"""Where the workers of a map work: each has a lease of its own, or no device at all."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import Conflict
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Progress
from andon.leases.placement import Placement
from andon.model.job.device_request import DeviceRequest
from andon.model.run.record import RunBegin, RunDevice
from andon.runs.rules.sampled import run_devices

AT_ONCE_SECONDS = 0.0


class MapPlace(Struct, frozen=True):
    """Where items are worked on, as records and screens name it."""

    label: str
    devices: tuple[RunDevice, ...] = ()

    @classmethod
    def of(cls, place: Placement) -> "MapPlace":
        found = () if place.snapshot is None else run_devices(place.snapshot, place.uuids)
        return cls(place.label, found)

    @classmethod
    def of_run(cls, begin: RunBegin) -> "MapPlace":
        """Returns the place of a worker on another machine, whose name its label begins with."""
        found = tuple(replace(one, label=f"{begin.node}:{one.label}") for one in begin.devices)
        return cls(",".join(one.label for one in found) or begin.node, found)


class TakeDevices(Protocol):
    """Takes a lease, as `Granter.grant` does."""

    def __call__(
        self,
        request: DeviceRequest,
        timeout_seconds: float | None = None,
        waiting: Callable[[Progress], None] | None = None,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> Placement: ...


class WorkPlaces(Protocol):
    """Provides places one by one."""

    @property
    def most(self) -> int:
        """Returns how many places there can be at once."""

    def first(self) -> Placement:
        """Waits for the first place."""

    def at_once(self, taken: Sequence[Placement]) -> Placement | None:
        """Returns another place if one is free now, else None."""

    def later(self, taken: Sequence[Placement], unwanted: Callable[[], bool]) -> Placement | None:
        """Waits for another place; None if there will be none."""


class CpuPlaces(Struct):
    """WorkPlaces without a device."""

    most: int

    def first(self) -> Placement:
        return Placement()

    def at_once(self, taken: Sequence[Placement]) -> Placement | None:
        return self.first() if len(taken) < self.most else None

    def later(self, taken: Sequence[Placement], unwanted: Callable[[], bool]) -> Placement | None:
        return None


class LeasedPlaces(Struct):
    """WorkPlaces with a lease each, for `request.least` devices."""

    availability: Availability
    request: DeviceRequest
    grant: TakeDevices
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

    def first(self) -> Placement:
        return self.grant(self.request, self.wait_seconds, self.waiting)

    def at_once(self, taken: Sequence[Placement]) -> Placement | None:
        if len(taken) >= self.most:
            return None
        offer = self.availability.offer(self._book, self._wanted(taken))
        if not offer.choice.chosen:
            return None
        try:
            return self.grant(self._wanted(taken), AT_ONCE_SECONDS)
        except Conflict:  # someone took it meanwhile: `later` waits for the next
            return None

    def later(self, taken: Sequence[Placement], unwanted: Callable[[], bool]) -> Placement | None:
        if len(taken) >= self.most:
            return None
        return self.grant(self._wanted(taken), None, None, unwanted)

    def _wanted(self, taken: Sequence[Placement]) -> DeviceRequest:
        """Returns the request, without devices that have all the workers they may have."""
        count = Counter(device.uuid for place in taken for device in place.devices)
        full = tuple(uuid for uuid, workers in count.items() if workers >= self.per_device)
        request = replace(self.request, exclude=(*self.request.exclude, *full))
        if not self.request.shared or self.most_devices is None or len(count) < self.most_devices:
            return request
        return replace(request, devices=tuple(count))  # no further device, only further workers
