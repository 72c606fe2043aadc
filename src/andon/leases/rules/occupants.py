"""Holders, members and strangers: devices and processes by the lease book."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from andon.explain.evidence.blame import unattributed_bytes
from andon.explain.evidence.observation import (
    NOT_SHARED,
    HeldDevices,
    PreviousLease,
    ReservedDevices,
    Sharing,
)
from andon.leases.rules.membership import is_owners, judge, nearest
from andon.model.device import NAMES_MISSING, DeviceStatus, Process, ProcessKind, party
from andon.model.event import Party
from andon.model.lease import (
    LONGEST_ID,
    BookEntry,
    Claim,
    Kin,
    Lease,
    LeaseKind,
    LeaseState,
    PidScope,
    Reservation,
)
from andon.model.lease_list import LeaseRow
from andon.units import plain

SETTLING_SECONDS = 30.0  # a process list may be a few seconds older than the book
LONGEST_COMMAND = 200
MOST_LEFT = 5
MOST_ENDED = 32  # pids in one kill command
DRIVERS_OWN = "nvidia-cuda-mps"  # works for other processes, which are listed themselves

Marks = Mapping[str, Mapping[int, str]]
"""uuid -> pid -> id of the lease the process belongs to."""


class BookView(Struct, frozen=True):
    """The contents of the book at one instant, matched with the devices."""

    claims: tuple[Claim, ...] = ()
    marks: Marks = field(default_factory=dict)
    leases: tuple[HeldDevices, ...] = ()
    sharing: Sharing = NOT_SHARED
    reserved: tuple[ReservedDevices, ...] = ()


BLANK = BookView()
"""No leases."""


class Holder(Struct, frozen=True):
    """Who holds a device or part of it; `lease` is None if the file cannot be read."""

    lease: str | None
    user: str
    until: float | None
    memory_bytes: int | None
    state: LeaseState
    then: str | None = None  # who has reserved it within an hour of the end


def wanted_pids(entries: Iterable[BookEntry], statuses: Iterable[DeviceStatus]) -> set[int]:
    """Returns the pids to look up: of processes on leased devices that are not simulated."""
    named = {s.uuid for e in entries if e.lease is not None for s in e.lease.shares}
    return {
        process.pid
        for status in statuses
        if status.device.uuid in named and status.device.vendor != "sim"
        for process in status.processes
    }


def page_of(
    entries: Sequence[BookEntry],
    statuses: Sequence[DeviceStatus],
    kin: Mapping[int, Kin],
    scope: PidScope,
    before: BookView,
    at: float,
) -> BookView:
    """Returns the contents of the book now; `before` has earlier leases and what is reserved."""
    claims = judge(entries, statuses, kin, scope)
    by_device = _by_device(claims)
    marks: dict[str, dict[int, str]] = {}
    strangers: dict[str, frozenset[int]] = {}
    unsure: set[str] = set()
    for status in statuses:
        leases = by_device.get(status.device.uuid)
        if leases:
            marks[status.device.uuid], outside, unknown = _placed(status, leases, kin, scope)
            if outside:
                strangers[status.device.uuid] = outside
            if unknown:
                unsure.add(status.device.uuid)
    former = _former(before, claims, statuses, at)
    held = _unique(
        _held(claim, claim.lease, statuses, marks, kin) for claim in claims if claim.lease
    )
    if not (strangers or unsure or former):
        return BookView(claims, marks, held, reserved=before.reserved)
    sharing = Sharing(strangers, frozenset(unsure), former)
    return BookView(claims, marks, held, sharing, before.reserved)


def holders(page: BookView, uuids: Iterable[str]) -> dict[str, list[Holder]]:
    """Returns who holds each device; an unreadable lease may hold any of them."""
    found: dict[str, list[Holder]] = {}
    for uuid in uuids:
        claims = [c for c in page.claims if c.lease is None or c.share_of(uuid) is not None]
        on = [_holder(claim, uuid, page.reserved) for claim in claims]
        if on:
            found[uuid] = on
    return found


def holders_in(leases: Iterable[LeaseRow], uuids: Iterable[str]) -> dict[str, list[Holder]]:
    """Returns who holds each device, from a list of leases; an unreadable lease may hold any."""
    found: dict[str, list[Holder]] = {}
    for row in leases:
        parts = {share.uuid: share.memory_bytes for share in row.devices}
        for uuid in uuids:
            if row.id is None or uuid in parts:
                one = Holder(row.id, row.holder, row.until, parts.get(uuid), row.state)
                found.setdefault(uuid, []).append(one)
    return found


def reserved_devices(reservations: Iterable[Reservation]) -> tuple[ReservedDevices, ...]:
    """Returns reservations as alerts see them; of two with one id the second has its owner's."""
    found = dict[str, ReservedDevices]()
    for one in reservations:
        id_ = f"reservation:{one.id}"
        id_ = f"{id_}-{one.uid}" if id_ in found else id_
        devices = tuple(device.uuid for device in one.devices)
        found[id_] = ReservedDevices(id_, devices, one.begins, one.ends, one.user, one.lapses)
    return tuple(found.values())


class Marker:
    """Writes the lease into the processes of a snapshot.

    An unchanged list stays the same object, so that others can skip it.
    """

    def __init__(self) -> None:
        self._marked: dict[str, tuple[tuple[Process, ...], Mapping[int, str], tuple[Process, ...]]]
        self._marked = {}

    def marked(self, statuses: tuple[DeviceStatus, ...], marks: Marks) -> tuple[DeviceStatus, ...]:
        if not marks:
            self._marked.clear()
            return statuses
        return tuple(self._status(status, marks.get(status.device.uuid)) for status in statuses)

    def _status(self, status: DeviceStatus, names: Mapping[int, str] | None) -> DeviceStatus:
        uuid, there = status.device.uuid, status.processes
        if not names or not there:
            self._marked.pop(uuid, None)
            return status
        known = self._marked.get(uuid)
        if known is None or known[0] is not there or known[1] != names:
            written = tuple(replace(p, lease=names.get(p.pid)) for p in there)
            known = self._marked[uuid] = (there, names, written)
        return replace(status, processes=known[2])


def lease_name(lease: Lease) -> str:
    """Returns the id, reduced to letters and digits."""
    return "".join(c for c in lease.id if c.isascii() and c.isalnum())[:LONGEST_ID] or "unnamed"


def _by_device(claims: Iterable[Claim]) -> dict[str, list[Lease]]:
    found: dict[str, list[Lease]] = {}
    for lease in (claim.lease for claim in claims if claim.lease is not None):
        for share in lease.shares:
            found.setdefault(share.uuid, []).append(lease)
    return found


def _placed(
    status: DeviceStatus, leases: Sequence[Lease], kin: Mapping[int, Kin], scope: PidScope
) -> tuple[dict[int, str], frozenset[int], bool]:
    """Each process's lease, the processes without one, and whether some are unknown: no process
    is called a stranger without proof."""
    names: dict[int, str] = {}
    outside: set[int] = set()
    nameless = NAMES_MISSING in status.missing
    unknown = "processes" in status.missing
    for process in status.processes:
        lease, own = nearest(process, leases, kin, scope), kin.get(process.pid)
        if lease is not None:
            names[process.pid] = lease_name(lease)
        elif process.kind is ProcessKind.COMPUTE and not _is_expected(process, own, leases):
            simulated = status.device.vendor == "sim"
            if simulated or (own is not None and not nameless and not _is_hired(own, leases)):
                outside.add(process.pid)
            else:
                unknown = True
    return names, frozenset(outside), unknown


def _is_expected(process: Process, own: Kin | None, leases: Iterable[Lease]) -> bool:
    """Whether a holder expects a process: an older process of their own, one that was there when
    they took a used device, or the driver's own."""
    if (process.name or "").startswith(DRIVERS_OWN):
        return True
    mine = own is not None and any(lease.owner.uid == own.uid for lease in leases)
    return mine or any(_puts_up(lease, process, own) for lease in leases)


def _is_hired(own: Kin, leases: Iterable[Lease]) -> bool:
    """Whether the process, of another user and session, may be one that a container engine started
    for a holder."""
    later = any(own.started_ticks >= lease.since_ticks for lease in leases)
    return own.container is not None and later


def _puts_up(lease: Lease, process: Process, kin: Kin | None) -> bool:
    """Whether the holder took the device although this process was already there."""
    if not lease.even_if_used:
        return False
    if kin is not None and kin.started_ticks < lease.since_ticks:
        return True
    return process.started is not None and process.started < lease.since


def _held(
    claim: Claim,
    lease: Lease,
    statuses: Iterable[DeviceStatus],
    marks: Marks,
    kin: Mapping[int, Kin],
) -> HeldDevices:
    name, orphaned = lease_name(lease), claim.state is LeaseState.ORPHANED
    command = plain(lease.command, LONGEST_COMMAND) or None
    who: tuple[Party, ...] = (Party(lease.owner.pid, claim.user, command=command),)
    remedy = ""
    if orphaned:
        left = {p.pid: p for s in statuses for p in s.processes
                if marks.get(s.device.uuid, {}).get(p.pid) == name
                and is_owners(kin.get(p.pid), claim.uid)}  # fmt: skip
        who = tuple(party(p) for p in left.values())
        remedy = _remedy((*left, *(pid for pid in claim.left if pid not in left)))
        if not who:
            who = tuple(Party(pid, claim.user, command=command) for pid in claim.left)
    return HeldDevices(
        id=f"lease:{name}",
        devices=tuple(share.uuid for share in lease.shares),
        since=lease.since,
        user=claim.user,
        name=command,
        is_command=lease.kind is LeaseKind.COMMAND,
        orphaned=orphaned,
        who=who[:MOST_LEFT],
        remedy=remedy,
        until=lease.until,
    )


def _remedy(pids: tuple[int, ...]) -> str:
    """Returns how to stop verified pids, and never a group: its number comes from the file."""
    named = [str(pid) for pid in pids[:MOST_ENDED] if pid > 1]
    return f"kill {' '.join(named)}" if named else ""


def _unique(leases: Iterable[HeldDevices]) -> tuple[HeldDevices, ...]:
    """Returns the leases with unique ids: a file may claim another lease's id."""
    found: dict[str, HeldDevices] = {}
    for held in leases:
        name = held.id
        while name in found:
            name += "x"
        found[name] = held if name == held.id else replace(held, id=name)
    return tuple(found.values())


def _former(
    before: BookView, claims: Iterable[Claim], statuses: Sequence[DeviceStatus], at: float
) -> dict[str, PreviousLease]:
    """Returns each device's lease that ended, while its memory stays in use, or for a moment."""
    now = {claim.lease.id for claim in claims if claim.lease is not None}
    taken = {s.uuid for claim in claims if claim.lease is not None for s in claim.lease.shares}
    found = dict(before.sharing.former)
    for claim in before.claims:
        if claim.lease is not None and claim.lease.id not in now:
            ended = PreviousLease(f"lease:{lease_name(claim.lease)}", claim.user, at)
            found.update({share.uuid: ended for share in claim.lease.shares})
    spare = {status.device.uuid: _spare(status) for status in statuses}
    return {
        uuid: ended
        for uuid, ended in found.items()
        if uuid not in taken
        and uuid in spare
        and (spare[uuid] is not False or at - ended.ended < SETTLING_SECONDS)
    }


def _spare(status: DeviceStatus) -> bool | None:
    """Whether the device has memory in use by no visible process; None if that is unknown."""
    size = unattributed_bytes(status)
    return None if size is None else size > 0


def _holder(claim: Claim, uuid: str, reserved: Iterable[ReservedDevices]) -> Holder:
    lease, share = claim.lease, claim.share_of(uuid)
    until = None if lease is None else lease.until
    after = (one.user for one in reserved if one.follows([uuid], claim.user, until))
    return Holder(
        None if lease is None else lease_name(lease),
        plain(claim.holder, LONGEST_COMMAND),
        until,
        None if share is None else share.memory_bytes,
        claim.state,
        next((plain(user, LONGEST_COMMAND) for user in after), None),
    )
