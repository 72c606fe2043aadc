"""The devices that a piece of work got: with its lease, and the environment of its processes."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from andon.errors import Conflict, Gone
from andon.host.users import user_name
from andon.leases.availability import AvailabilityView, Candidates
from andon.leases.book.hold import LeaseHold, name_container_in
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import LockTable, strangers
from andon.leases.book.places import LEASES
from andon.leases.rules.eligibility import chosen_by
from andon.leases.rules.environment import NO_DEVICE, NO_GPU, environment
from andon.model.device import Device, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Lease
from andon.model.naming import device_labels, title

THE_LEASE = "the lease"  # how devices were chosen that a lease had already


class Placement(Struct, frozen=True):
    """Where work runs. Without devices it runs on CPUs alone."""

    devices: tuple[Device, ...] = ()
    environment: Mapping[str, str] = field(default_factory=NO_DEVICE.copy)
    """Variables that show a process only these devices."""
    snapshot: Snapshot | None = None  # the machine when they were chosen
    lease: Lease | None = None
    held: LeaseHold | None = None  # None if another process holds the lease
    file: Path | None = None  # of a lease that another process holds
    candidates: Candidates | None = None  # the choice that led to it
    waited_seconds: float = 0.0
    give_back: Callable[[], None] | None = None  # ends a lease that another process holds for us

    @property
    def uuids(self) -> list[str]:
        return [device.uuid for device in self.devices]

    @property
    def label(self) -> str:
        """The labels of the devices: `0` or `0,6:1`; `cpu` without any."""
        names = {} if self.snapshot is None else device_labels(self.snapshot.devices)
        found = [names.get(one.uuid) or str(one.index) for one in self.devices]
        return ",".join(found) or NO_GPU

    @property
    def title(self) -> str:
        """The devices as a title: `GPU 0, 6:1`."""
        return title(", ".join(self.label.split(",")))

    @property
    def lease_id(self) -> str | None:
        return None if self.lease is None else self.lease.id

    @property
    def method(self) -> str | None:
        """Returns how the devices were chosen, for a record."""
        if self.candidates is not None:
            return chosen_by(self.candidates.choice.linked)
        return THE_LEASE if self.devices else None

    def descriptors(self) -> tuple[int, ...]:
        """Returns the lock of the lease, for a command to inherit: it lasts as long as that."""
        return () if self.held is None else self.held.hold.descriptors

    def name_container(self, container: str) -> None:
        """Writes the id of a container into the lease, before the container starts."""
        if self.held is not None:
            self.held.hold.name_container(container)
        elif self.file is not None:
            name_container_in(self.file, container)

    def release(self) -> None:
        """Releases a lease that was taken for this work; may be called twice."""
        if self.held is not None:
            self.held.release()
        if self.give_back is not None:
            self.give_back()


class Grant(Placement, frozen=True, kw_only=True):
    """The placement on a new lease, which this process holds."""

    snapshot: Snapshot
    lease: Lease
    held: LeaseHold
    candidates: Candidates


def granted(held: LeaseHold, candidates: Candidates, waited_seconds: float) -> Grant:
    devices = tuple(capacity.status.device for capacity in candidates.choice.chosen)
    everyone = [status.device for status in candidates.snapshot.devices]
    return Grant(
        devices=devices,
        environment=environment(devices, everyone, held.lease.id),
        snapshot=candidates.snapshot,
        lease=held.lease,
        held=held,
        candidates=candidates,
        waited_seconds=waited_seconds,
    )


def on_lease(name: str, view: AvailabilityView, request: DeviceRequest) -> Placement:
    """Returns the placement on a lease of this user that another process holds; it must have
    enough devices, all present."""
    path, found, lease = Book(make=False).find(name)
    if found.uid != os.getuid():
        raise Conflict(f"lease {lease.id} belongs to {user_name(found.uid)}")
    if strangers(path, found.name, lease, found.uid, LockTable()):
        raise Gone(f"lease {lease.id} has lost its holder", hint=f"andon release {lease.id}")
    present = {s.device.uuid: s.device for s in view.snapshot.devices}
    missing = [share.index for share in lease.shares if share.uuid not in present]
    if missing:
        raise Gone(f"{title(str(missing[0]))} of lease {lease.id} is no longer present")
    if request.least > len(lease.shares):
        raise Conflict(
            f"{request.least} GPUs requested, but lease {lease.id} holds {len(lease.shares)}",
            hint="to request others, omit --lease and unset ANDON_LEASE",
        )
    shares = lease.shares if request.least == 1 else lease.shares[: request.most]
    devices = tuple(present[share.uuid] for share in shares)
    shown = environment(devices, tuple(present.values()), lease.id)
    return Placement(devices, shown, view.snapshot, lease, file=path / LEASES / found.name)
