"""Ends processes: pins each with a pidfd, shows what it is, and signals it through the pidfd.

No server does this: it is for the person at the terminal, in `andon kill` and `andon top`.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Self

from andon.errors import AndonError, Denied, Gone
from andon.host.processes.handles import ProcessHandle
from andon.host.processes.kin import pid_scope, read_kin, uid_of
from andon.host.processes.procfs import (
    ancestry,
    descendants,
    parents,
    read_facts,
    short_name,
)
from andon.jobs import acts
from andon.jobs.folder import jobs_path
from andon.jobs.queue import Queue, wake
from andon.jobs.rules.naming import one_meant
from andon.jobs.rules.states import is_running
from andon.kill.rules.plan import (
    EndLease,
    EndRequester,
    EndTarget,
    LargerTarget,
    barred_pid,
    is_same_start,
    refusal,
)
from andon.leases import releaser
from andon.leases.book.lease_book import Book
from andon.leases.own import this_requester
from andon.leases.rules.membership import BY_ITSELF, bond
from andon.leases.rules.occupants import lease_name
from andon.leases.rules.rights import barred
from andon.model.device import FaultCode, Process, Snapshot, State
from andon.model.job.facts import AttemptClaim
from andon.model.lease import Claim, Kin, LeaseState
from andon.model.naming import device_labels
from andon.units import plain

LONGEST_USER = 64
SIGTERM = signal.SIGTERM
_NO_DEVICES = (FaultCode.NO_DRIVER, FaultCode.NO_DEVICE)


class Ending:
    """Pinned processes: the same ones are shown, asked about and signalled."""

    def __init__(
        self,
        pids: Sequence[int],
        snapshot: Snapshot | None = None,
        *,
        tree: bool = False,
        started: Mapping[int, float | None] | None = None,
        number: signal.Signals = SIGTERM,
    ) -> None:
        """Pins these processes. `snapshot` has their devices, memory and leases; `started` has, by
        pid, the start of the process that was selected, because a row on a screen may be older than
        its pid."""
        self._closing = ExitStack()
        self._held: dict[int, tuple[EndTarget, ProcessHandle]] = {}
        self._asker = EndRequester(os.getuid(), ancestry(os.getpid()))
        self._uses = _uses_of(snapshot)
        self._no_devices = () if _is_complete(snapshot) else None
        self._claims, self._jobs = _claims(), _running_jobs()
        self._family = parents()
        self.tree = tree
        self.refused: tuple[AndonError, ...] = ()
        """Why processes are left out."""
        try:
            for pid in pids:
                self._take(pid, (started or {}).get(pid), number)
        except BaseException:
            self._closing.close()
            raise

    @property
    def targets(self) -> tuple[EndTarget, ...]:
        """The processes that will be signalled, each before those that it started."""
        return tuple(target for target, _ in self._held.values())

    def send(self, number: signal.Signals) -> tuple[AndonError, ...]:
        """Signals all of them; returns the errors, except for processes that have just ended."""
        if self.tree:
            self._take_newcomers(number)
        failed: list[AndonError] = []
        for _, handle in self._held.values():
            try:
                handle.send(number)
            except Gone:
                continue
            except Denied as exc:
                failed.append(exc)
        return tuple(failed)

    def still_running(self, seconds: float = 0.0) -> tuple[EndTarget, ...]:
        """Returns those that have not ended within this time; returns early when all have."""
        end = time.monotonic() + seconds
        held = list(self._held.values())
        return tuple(t for t, handle in held if not handle.ended(end - time.monotonic()))

    def close(self) -> None:
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, pid: int, started: float | None, number: signal.Signals) -> None:
        if pid in self._held:
            return
        try:
            self._hold(pid, started, number, 0)
        except (Gone, Denied) as exc:
            self.refused = (*self.refused, exc)
            return
        if self.tree:
            for child, depth in descendants(pid, self._family):
                self._take_child(child, number, depth)

    def _take_child(self, pid: int, number: signal.Signals, depth: int) -> None:
        try:
            self._hold(pid, None, number, depth)
        except Denied as exc:
            self.refused = (*self.refused, exc)
        except Gone:
            return

    def _hold(self, pid: int, started: float | None, number: signal.Signals, depth: int) -> None:
        if (barrier := barred_pid(pid, self._asker)) is not None:
            raise barrier
        handle = ProcessHandle.open(pid)
        self._closing.callback(handle.close)
        target = self._described(handle, started, depth)
        if (why := refusal(target, self._asker, number)) is not None:
            raise why
        self._held[pid] = target, handle

    def _described(self, handle: ProcessHandle, started: float | None, depth: int) -> EndTarget:
        known = read_facts(handle)
        if not is_same_start(started, known.facts.started):
            raise Gone(
                f"the process that had pid {handle.pid} has ended",
                hint="another process has that pid now; nothing was signalled",
            )
        uses = [u for u in self._uses.get(handle.pid, ()) if _is_use(u[1], known.facts.started)]
        sizes = [process.memory_bytes for _, process in uses]
        kin = read_kin([handle.pid]).get(handle.pid)
        lease = self._lease_of(kin, next((p.lease for _, p in uses if p.lease), None))
        return EndTarget(
            handle.pid,
            known.facts.user,
            known.program,
            known.facts.command,
            known.age_seconds,
            permitted=handle.may_signal(),
            kernel_thread=known.kernel_thread,
            memory_bytes=None if None in sizes else sum(size or 0 for size in sizes),
            devices=tuple(dict.fromkeys(label for label, _ in uses)) or self._no_devices,
            lease=lease,
            job=self._job_of(kin, lease) or known.job,
            container=known.container,
            children=tuple((c, short_name(c)) for c, _ in descendants(handle.pid, self._family)),
            depth=depth,
        )

    def _job_of(self, kin: Kin | None, lease: EndLease | None) -> str | None:
        """This user's job that holds the lease, or whose command this process belongs to."""
        for label, claim in self._jobs:
            by_lease = lease is not None and claim.lease == lease.id
            if by_lease or (kin is not None and claim.group in (kin.group, kin.session)):
                return f"job:{label}"
        return None

    def _lease_of(self, kin: Kin | None, named: str | None) -> EndLease | None:
        """Returns the lease in the snapshot, or the one whose holder or command this process is."""
        for claim in self._claims:
            lease = claim.lease
            if lease is None:
                continue
            if lease_name(lease) == named or bond(lease, kin, pid_scope()) == BY_ITSELF:
                free = barred(claim, this_requester()) is None
                return EndLease(lease_name(lease), plain(claim.user, LONGEST_USER), free)
        return None

    def _take_newcomers(self, number: signal.Signals) -> None:
        """Adds children that were started since the question, of processes that are still alive."""
        self._family = parents()
        for pid, (target, handle) in list(self._held.items()):
            if handle.ended():
                continue
            for child, depth in descendants(pid, self._family):
                if child not in self._held:
                    self._take_child(child, number, target.depth + depth)


def mine_on(snapshot: Snapshot, uuids: Iterable[str]) -> dict[int, float | None]:
    """This user's processes on these devices, by pid with their start times.

    A process without a name is not in this pid namespace: its pid means another process here.
    """
    wanted = set(uuids)
    found = [p for s in snapshot.devices if s.device.uuid in wanted for p in s.processes]
    return {p.pid: p.started for p in found if p.name is not None and uid_of(p.pid) == os.getuid()}


def _uses_of(snapshot: Snapshot | None) -> dict[int, list[tuple[str, Process]]]:
    """Each real process's uses of devices, by the device's label."""
    found: dict[int, list[tuple[str, Process]]] = {}
    if snapshot is None or "replay" in snapshot.versions:
        return found
    labels = device_labels(snapshot.devices)
    for status in snapshot.devices:
        for process in status.processes if status.device.vendor != "sim" else ():
            found.setdefault(process.pid, []).append((labels[status.device.uuid], process))
    return found


def _is_complete(snapshot: Snapshot | None) -> bool:
    """Whether every device has reported which processes use it."""
    if snapshot is None or any(f.code not in _NO_DEVICES for f in snapshot.faults):
        return False
    return all(s.state is State.OK and "processes" not in s.missing for s in snapshot.devices)


def _is_use(process: Process, started: float) -> bool:
    """Whether a row of the snapshot is this process; a nameless one is of another namespace."""
    return process.name is not None and is_same_start(process.started, started)


def _claims() -> tuple[Claim, ...]:
    """Returns the leases that are held; none if the book cannot be read."""
    try:
        entries = Book(make=False).entries()
    except (AndonError, OSError):
        return ()
    state = LeaseState.HELD
    return tuple(Claim(e.lease, state, e.uid, e.user, e.file) for e in entries if e.locked)


def _running_jobs() -> tuple[tuple[str, AttemptClaim], ...]:
    """Returns this user's running jobs, by their labels; none if they cannot be read."""
    if not os.access(jobs_path(), os.F_OK):
        return ()

    try:
        jobs = Queue().jobs.values()
    except (AndonError, OSError):
        return ()
    last = [(facts.spec.label, facts.last) for facts in jobs]
    return tuple((label, one.claim) for label, one in last if one is not None and is_running(one))


def end_whole(whole: LargerTarget) -> str:
    """Cancels the job or releases the lease; returns a sentence that says what was done."""
    if whole.kind == "lease":
        return f"released lease {releaser.release(Book(make=False), whole.id).id}"
    return _cancel(whole.id)


def _cancel(label: str) -> str:
    """Cancels one job without waiting for its end; returns the result as a sentence."""
    queue = Queue()
    number = one_meant(label, queue.jobs)
    outcome = acts.cancel(queue.folder, queue.jobs[number], queue.statuses[number])
    wake(queue.folder)
    results = {
        acts.CancelOutcome.ENDED: "has ended already",
        acts.CancelOutcome.STOPPING: "is cancelled: its command was asked to end",
    }
    return f"job {label} {results.get(outcome, 'cancelled')}"
