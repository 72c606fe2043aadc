"""Leases the devices of a process that already runs, until it ends; the process itself is never
signalled."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Gone
from andon.host.accounts import account_of
from andon.host.processes.handles import ProcessHandle
from andon.host.processes.kin import group_members, pid_scope, read_kin
from andon.host.processes.procfs import descendants, parents, read_facts
from andon.host.users import user_name
from andon.leases.availability import Availability, BookContents
from andon.leases.book.holder import Account, HolderProcess
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.own import holder_as_owner
from andon.leases.placement import Grant
from andon.leases.rules.around import (
    check_pid,
    check_unleased,
    devices_around,
    left_to,
)
from andon.leases.rules.eligibility import no_gpu
from andon.model.job.device_request import DeviceRequest
from andon.model.lease import Kin, LeaseKind, Work


class RunningProcess(Struct, frozen=True):
    """A process that was opened while it ran, and its family."""

    handle: ProcessHandle
    kin: Kin
    family: frozenset[int]  # it, its descendants and its group, if they are of its user
    command: str

    @property
    def work(self) -> Work:
        """The process as a lease's work: with its group only if it leads one."""
        group = self.kin.group if self.kin.group == self.kin.pid else None
        return Work(self.kin.pid, self.kin.started_ticks, group)


@contextmanager
def running_process(pid: int) -> Iterator[RunningProcess]:
    """Opens a process that this user may lease for; a later one with its pid is never meant."""
    check_pid(pid, os.getpid())
    with ProcessHandle.open(pid) as handle:
        below = [child for child, _ in descendants(pid, parents())]
        found = read_kin((pid, *below), containers=True)
        members = group_members({pid}).get(pid, ())
        kin, facts = found.get(pid), read_facts(handle)
        if kin is None or handle.ended():
            raise Gone(f"process {pid} has just ended")
        if os.getuid() not in (0, kin.uid):
            user = user_name(kin.uid)
            raise Denied(f"process {pid} belongs to {user}", hint=f"ask {user}, or root")
        if facts.kernel_thread:
            raise Denied(f"process {pid} is a part of the kernel")
        family = (one.pid for one in (*found.values(), *members) if one.uid == kin.uid)
        command = facts.facts.command or facts.program
        yield RunningProcess(handle, kin, frozenset(family), command)


def lease_process(
    availability: Availability,
    book: Book,
    process: RunningProcess,
    names: Sequence[str] = (),
    even_if_used: bool = False,
    seconds: float | None = None,
) -> Grant:
    """Leases the devices that were named, else those that the process uses, and leaves the lease to
    a holder, which ends it with the process."""
    view, kin = availability.view(), process.kin
    statuses = view.snapshot.devices
    if not statuses:
        raise no_gpu(view.snapshot.faults)
    uuids = devices_around(statuses, process.family, names)
    if not uuids:
        raise Conflict(f"process {kin.pid} uses no GPU now", hint="name them: -d 0")
    pages, scope = BookContents.of(book), pid_scope()
    claims = availability.claims(view, pages)
    old = left_to(claims, statuses, view.kin, scope, kin.uid, process.family)
    check_unleased((claim for claim in claims if claim not in old), uuids, kin, scope)
    count = len(uuids)
    request = DeviceRequest(count, count, devices=uuids, balanced=False, even_if_used=even_if_used)
    seen = replace(
        availability,
        mine=process.family,
        max_utilization_percent=100.0,  # what its family computes is no reason against it
        is_own=lambda lease: any(lease == claim.lease for claim in old),
    )
    grant = _granted(Granter(book, seen), request, process, seconds)
    if old:
        files = {claim.file for claim in old}
        with suppress(AndonError, OSError), book.locked():
            book.sweep(entry for entry in pages.entries if entry.file in files)
    return replace(grant, devices=tuple(sorted(grant.devices, key=lambda one: one.index)))


def _granted(
    granter: Granter, request: DeviceRequest, process: RunningProcess, seconds: float | None
) -> Grant:
    account = _account(process.kin.uid)
    holder = HolderProcess(detached=True, account=account)
    try:
        terms = LeaseTerms(
            LeaseKind.LIBRARY, process.command, seconds, holder_as_owner(holder.pid, account),
            process.work, uid=account and account.uid, since_ticks=process.kin.started_ticks,
        )  # fmt: skip
        grant = granter.grant(request, terms, timeout_seconds=0.0)
        holder.take_over(grant.held, process.handle.fileno())
    finally:
        holder.dismiss()
    return grant


def _account(uid: int) -> Account | None:
    """Returns the account of a process that root leases for; None for this user's own."""
    if uid == os.getuid():
        return None
    if (found := account_of(uid)) is None:
        raise Denied(f"user {uid} has no account here", hint="take the lease as that user")
    return Account(found.uid, found.gid, found.name)
