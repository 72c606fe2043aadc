"""Makes, changes and cancels reservations, under the lock of the book."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from andon.errors import Conflict, Denied, Gone, Invalid
from andon.host.users import is_root, user_name
from andon.leases.availability import Availability, BookContents
from andon.leases.book.lease_book import Book
from andon.leases.book.places import VARIABLE
from andon.leases.policy_file import limits_for, read_policy, unused_seconds
from andon.leases.refusal import clock
from andon.leases.rules.eligibility import need_of, obstacles_of
from andon.leases.rules.policy import Policy, UserLimits
from andon.leases.rules.reservations import (
    SHORTEST_SECONDS,
    check_times,
    is_over,
    lapsing,
    overlapping,
    pick_devices,
    week_seconds,
)
from andon.leases.rules.spans import Span
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Reservation, ReservedDevice
from andon.units import valid_text


def reserve(
    availability: Availability,
    book: Book,
    request: DeviceRequest,
    times: Sequence[Span],
    name: str = "",
    policy: Callable[[], Policy] = read_policy,
    uid: int | None = None,
) -> list[Reservation]:
    """Reserves the same devices at each of these times for this user, or as root for another; or
    raises an error that says what is in the way."""
    uid = os.getuid() if uid is None else uid
    if request.shared:
        raise Invalid("a reservation is for whole GPUs", hint="leave out --shared")
    at, limits = time.time(), _limits(book, policy, uid)
    for begins, ends in times:
        check_times(begins, ends, at)
    view = availability.view()
    availability.check(view.snapshot, request)
    statuses = view.snapshot.devices
    need = need_of(statuses, request, obstacles_of(statuses, request, availability.labels))
    indexes = {one.device.uuid: one.device.index for one in statuses}
    with book.locked():
        pages = BookContents.of(book)
        leases = [entry.lease for entry in pages.entries if entry.locked and entry.lease]
        lease_ends = {share.uuid: lease.until for lease in leases for share in lease.shares}
        eligible = sorted(need.eligible, key=indexes.__getitem__)
        uuids = pick_devices(eligible, need.least, times, pages.reservations, lease_ends, at)
        devices = tuple(
            ReservedDevice(uuid, indexes[uuid]) for uuid in sorted(uuids, key=indexes.__getitem__)
        )
        made, known = list[Reservation](), list(pages.reservations)
        for begins, ends in times:
            one = Reservation(
                _new_id(known), devices, begins, ends, valid_text(name)[:200],
                view.snapshot.simulated, uid, user_name(uid),
            )  # fmt: skip
            _check_limits(limits, one, known, len(statuses), at)
            made.append(one)
            known.append(one)
        _write(book, made, uid)
    return [lapsing(one, unused_seconds(policy)(uid)) for one in made]


def _write(book: Book, made: Sequence[Reservation], uid: int) -> None:
    """Writes all reservations or none."""
    written = list[Reservation]()
    try:
        for one in made:
            book.reserve(one, uid)
            written.append(one)
    except BaseException:
        for one in written:
            book.cancel(one)
        raise


def late_leases(book: Book, one: Reservation) -> list[str]:
    """Returns a sentence for each lease that may still hold its devices when it begins."""
    labels = {device.uuid: device.index for device in one.devices}
    found = list[str]()
    for entry in book.entries():
        if not entry.locked or entry.lease is None or entry.uid == one.uid:
            continue
        end, uuids = entry.lease.until, labels.keys() & {s.uuid for s in entry.lease.shares}
        if uuids and (end is None or end > one.begins):
            gpus = ", ".join(map(str, sorted(labels[uuid] for uuid in uuids)))
            when = "has no end" if end is None else f"ends at {clock(end, time.time())}"
            found.append(f"GPU {gpus}: lease {entry.lease.id} of {entry.user} {when}; ask them")
    return found


def change(
    book: Book,
    name: str,
    begins: float | None,
    ends: float | None,
    seconds: float | None = None,
    policy: Callable[[], Policy] = read_policy,
    uid: int | None = None,
) -> Reservation:
    """Moves a reservation of this user, or as root of another one, to another time."""
    uid = os.getuid() if uid is None else uid
    at, limits = time.time(), _limits(book, policy, uid)
    with book.locked():
        before = _find(book, name, uid)
        if before.uid != uid and not is_root(uid):
            raise Denied(f"reservation {before.id} is {before.user}'s", hint="root may change it")
        starts = before.begins if begins is None else begins
        lasts = before.ends - before.begins if seconds is None else seconds
        one = replace(before, begins=starts, ends=starts + lasts if ends is None else ends)
        if before.used and one.begins > before.begins:
            raise Conflict(
                f"reservation {before.id} has begun and was used",
                hint="cancel it, and reserve again: its hours until then count",
            )
        one = replace(one, used=one.used and one.begins <= at)
        check_times(max(one.begins, at) if begins is None else one.begins, one.ends, at)
        others = book.reservations()
        for other in overlapping(one, others, at).values():
            when = f"{clock(other.begins, at)} to {clock(other.ends, at)}"
            raise Conflict(
                f"{other.user} has reserved it from {when} ({other.id})",
                hint="andon reservations lists what is",
            )
        _check_limits(limits, one, others, None, at)
        book.reserve(one, before.uid)
    return lapsing(one, unused_seconds(policy)(one.uid))


def own_reservation(name: str, folder: str = "") -> Reservation:
    """Returns a reservation of this user that is not over, in the book that a folder names; raises
    Gone for none."""
    book = Book({VARIABLE: folder} if folder else None, make=False)
    found = _find(book, name, os.getuid())
    if found.uid != os.getuid():
        raise Denied(f"reservation {found.id} is {found.user}'s", hint="use one of yours")
    return found


def cancel(book: Book, name: str, uid: int | None = None) -> Reservation:
    """Ends a reservation: one's own, or as root or the book's owner anyone's. One that has begun
    stays as long as it lasted, and these hours count."""
    uid, at = os.getuid() if uid is None else uid, time.time()
    with book.locked():
        found = _find(book, name, uid)
        if found.uid != uid and uid != os.getuid() and not _is_owner(book, uid):
            raise Denied(f"reservation {found.id} is {found.user}'s", hint=f"ask {found.user}")
        may_write = os.getuid() in (0, found.uid)
        if may_write and at - found.begins >= SHORTEST_SECONDS:
            book.reserve(replace(found, ends=at, used=True), found.uid)
        else:
            book.cancel(found)
    return found


def given_back(book: Book) -> list[str]:
    """Returns a sentence for each reservation of this user that nobody used, once: it is removed
    then."""
    at, found = time.time(), list[str]()
    for one in book.reservations():
        if one.uid == os.getuid() and is_over(one, at) and not one.used:
            book.cancel(one)
            when = clock(min(one.ends, one.lapses or one.ends), at)
            found.append(f"your reservation {one.id} was not used by {when} and is free again")
    return found


def _find(book: Book, name: str, uid: int) -> Reservation:
    """Returns a reservation; of two with one id, this user's."""
    now = time.time()
    found = [r for r in book.reservations() if r.id == name and not is_over(r, now)]
    own = [one for one in found if one.uid == uid]
    if not (own or found):
        raise Gone(f"there is no reservation {name[:40]!r}", hint="andon reservations lists them")
    return (own or found)[0]


def _limits(book: Book, policy: Callable[[], Policy], uid: int) -> UserLimits | None:
    """Returns a user's limits; None for root and the book's owner, who have none."""
    return None if _is_owner(book, uid) else limits_for(policy(), uid)


def _is_owner(book: Book, uid: int) -> bool:
    """Whether this user is root or owns the book."""
    with suppress(OSError):
        return is_root(uid) or book.path.stat().st_uid == uid
    return False


def _check_limits(
    limits: UserLimits | None,
    one: Reservation,
    known: Sequence[Reservation],
    devices: int | None,
    at: float,
) -> None:
    """Raises Denied beyond root's limits; without `devices` those of the machine stay as many."""
    if limits is not None:
        own = [r for r in known if r.uid == one.uid and r.id != one.id and not is_over(r, at)]
        beside = (r.uuids for r in own if r.begins < one.ends and one.begins < r.ends)
        count = 0 if devices is None else len(one.uuids.union(*beside))
        ahead, week = one.begins - at, week_seconds(one, known)
        limits.check_reservation(count, devices or 0, ahead, week)


def _new_id(known: Sequence[Reservation]) -> str:
    used = {one.id for one in known}
    return next(f"r{n}" for n in range(1, len(used) + 2) if f"r{n}" not in used)
