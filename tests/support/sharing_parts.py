"""Small devices, leases and tickets for the tests of sharing."""

from collections.abc import Sequence
from typing import Any

from andon.leases.rules.capacity import DeviceCapacity, Surroundings, capacities
from andon.model.device import Device, DeviceStatus, Process, Sample, State
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import (
    BookEntry,
    Claim,
    Kin,
    Lease,
    LeaseKind,
    LeaseState,
    Need,
    Owner,
    Share,
    Ticket,
)
from andon.model.lease_list import LeaseRow
from andon.units import GIB
from tests.support.snapshots import uuid

TOTAL = 80 * GIB


def gpu(
    index: int = 0,
    used_gib: float = 0.0,
    busy: int | None = 0,
    total: int | None = TOTAL,
    name: str = "NVIDIA H100",
    processes: Sequence[Process] = (),
    state: State = State.OK,
    missing: dict[str, str] | None = None,
    visible: bool = True,
    **values: Any,
) -> DeviceStatus:
    used = int(used_gib * GIB)
    sample = Sample(
        at=1.0,
        utilization_percent=busy,
        memory_used_bytes=used,
        memory_free_bytes=None if total is None else total - used,
        **values,
    )
    device = Device(f"GPU-{index}", index, "nvidia", name, memory_total_bytes=total)
    reason = None if state is State.OK else f"it is {state}"
    return DeviceStatus(
        device,
        state,
        0.0,
        reason=reason,
        visible=visible,
        sample=sample,
        missing=missing or {},
        processes=tuple(processes),
    )


def owner(user: str = "alice", uid: int = 1000, pid: int = 100, **more: Any) -> Owner:
    values: dict[str, Any] = {
        "started_ticks": 50,
        "session": 90,
        "boot": "b",
        "pid_namespace": "n",
    }
    return Owner(uid=uid, user=user, pid=pid, **(values | more))


def lease(
    *devices: int, name: str = "k7qm2", memory_gib: float | None = None, **more: Any
) -> Lease:  # fmt: skip
    size = None if memory_gib is None else int(memory_gib * GIB)
    values: dict[str, Any] = {
        "owner": owner(),
        "kind": LeaseKind.COMMAND,
        "since": 1000.0,
        "since_ticks": 60,
    }
    shares = tuple(Share(f"GPU-{index}", index, size) for index in devices)
    return Lease(id=name, shares=shares, **(values | more))


def lease_row(name: str, *indices: int) -> LeaseRow:
    """A lease of alice's as it is listed, on these devices."""
    return LeaseRow(
        name, "alice", None, 1000, LeaseState.HELD, LeaseKind.COMMAND,
        tuple(Share(uuid(index), index) for index in indices), 0.0, None, "train", False, 0, None,
        None, None, None, False, None,
    )  # fmt: skip


def claim(held: Lease | None, standing: LeaseState = LeaseState.HELD, user: str = "alice") -> Claim:
    return Claim(held, standing, 1000, user, "k7qm2.lease")


def entry(held: Lease | None, locked: bool = True, left: tuple[int, ...] = ()) -> BookEntry:
    return BookEntry("k7qm2.lease", 1000, "alice", locked, held, left)


def kin(pid: int, uid: int = 1000, started_ticks: int = 70, **more: Any) -> Kin:
    values: dict[str, Any] = {"session": pid, "group": pid}
    return Kin(pid=pid, uid=uid, started_ticks=started_ticks, **(values | more))


def need(count: int = 1, devices: Sequence[int] = range(8), **more: Any) -> Need:
    values: dict[str, Any] = {"least": count, "most": count}
    return Need(frozenset(f"GPU-{index}" for index in devices), **(values | more))


def request(count: int = 1, **more: Any) -> DeviceRequest:
    return DeviceRequest(**({"least": count, "most": count} | more))


def ticket(
    name: str = "t1", since: float = 1.0, priority: int = 0, wanted: Need | None = None, **who: Any
) -> Ticket:
    return Ticket(name, owner(**who), wanted or need(), priority, since)


def capacities_of(
    statuses: Sequence[DeviceStatus], *claims: Claim, **more: Any
) -> tuple[DeviceCapacity, ...]:
    return capacities(statuses, Surroundings(claims=claims, **more))
