"""The demo's lease book: the leases and tickets of its simulated people, and those of visitors."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from andon.drivers.sim.rules.demo import ME, Demo, DemoWork
from andon.errors import Denied
from andon.host.processes.kin import pid_scope
from andon.leases.book.files import BookFile
from andon.leases.book.lease_book import Book
from andon.leases.rules.queue import Waiting
from andon.leases.rules.usage import NO_USAGE, RecentUsage
from andon.model.lease import (
    BookEntry,
    Cordon,
    Lease,
    LeaseKind,
    Need,
    Owner,
    Reservation,
    ReservedDevice,
    Share,
    Ticket,
)

LARGE = 4  # the first GPUs have the most memory: those that wait need it
ORDER_SECONDS = 0.001  # between tickets
FIRST_UID = 4_000_000_000  # of no account


class DemoBook(Book):
    """The demo's book. Real books of this machine are not read."""

    def __init__(
        self,
        demo: Demo,
        queue: Callable[[], Sequence[DemoWork]] = tuple,
        env: Mapping[str, str] | None = None,
        make: bool = True,
    ) -> None:
        """`queue` returns the jobs that wait, in their order."""
        super().__init__(env, make)
        self._demo, self._queue = demo, queue
        self.paths = tuple(path for path in self.paths if path == self.path)

    def entries(self) -> list[BookEntry]:
        taken = [replace(entry, user=ME) for entry in super().entries()]
        return [*(entry_of(self._demo, work) for work in self._demo.running(time.time())), *taken]

    def waiting(self) -> list[Waiting]:
        return [*tickets(self._demo, self._queue()), *super().waiting()]

    def cordons(self) -> tuple[Cordon, ...]:
        return tuple(replace(cordon, by=ME) for cordon in super().cordons())

    def reservations(self) -> tuple[Reservation, ...]:
        own = (replace(one, user=ME) for one in super().reservations())
        return (*reserved(self._demo, time.time()), *own)

    def cancel(self, one: Reservation) -> None:
        if one.uid >= FIRST_UID:
            raise Denied(
                f"reservation {one.id} is {one.user}'s, who is simulated",
                hint="make one of your own and cancel that",
            )
        super().cancel(one)

    def usage(self) -> RecentUsage:
        return NO_USAGE

    def find(self, name: str, uid: int | None = None) -> tuple[Path, BookFile, Lease]:
        for work in self._demo.running(time.time()):
            if lease_id(work).startswith(name) and name:
                raise Denied(
                    f"this lease is {work.user}'s, who is simulated: nothing holds it",
                    hint="take one of your own and release that",
                )
        return super().find(name, uid)


RESERVED: Sequence[tuple[str, str, tuple[int, ...], int, int, int]] = (
    ("carol", "camera-ready figures", (0, 1, 2, 3), 1, 18, 14),
    ("bob", "weekly evaluation", (2, 3), 2, 10, 8),
    ("alice", "ablation, four seeds", (0, 1, 2, 3), 4, 8, 36),
)
"""Who reserves which GPUs and what for: days from today, from which hour, for how many."""


def reserved(demo: Demo, at: float) -> Iterator[Reservation]:
    """Yields the reservations of the demo's people: of the days to come, by this clock."""
    today = datetime.fromtimestamp(at).replace(minute=0, second=0, microsecond=0)
    for number, (user, name, gpus, days, hour, hours) in enumerate(RESERVED, 901):
        begins = (today.replace(hour=hour) + timedelta(days=days)).timestamp()
        devices = tuple(ReservedDevice(demo.devices[gpu].uuid, gpu) for gpu in gpus)
        yield Reservation(
            f"r{number}", devices, begins, begins + hours * 3600.0, name, True, _uid(user), user
        )


def tickets(demo: Demo, works: Sequence[DemoWork]) -> list[Waiting]:
    """Returns the tickets of works that came, or were moved, in this order."""
    large = frozenset(one.uuid for one in demo.devices[:LARGE])
    found, since = list[Waiting](), 0.0
    for work in works:
        since = max(since + ORDER_SECONDS, work.submitted)
        ticket = Ticket(
            f"t{work.number}", _owner(demo, work), Need(large, len(work.gpus), len(work.gpus)), 0,
            since, simulated=True, jobs_behind=0, asked=since,
        )  # fmt: skip
        found.append(Waiting(ticket, time.time()))
    return found


def entry_of(demo: Demo, work: DemoWork) -> BookEntry:
    """Returns the lease of a work: of a job until it ends, else until the time that was named."""
    lease = Lease(
        id=lease_id(work),
        shares=tuple(Share(demo.devices[gpu].uuid, gpu) for gpu in work.gpus),
        owner=_owner(demo, work),
        kind=LeaseKind.COMMAND,
        since=work.began,
        since_ticks=0,
        until=None if work.is_job else work.ended,
        command=work.command,
        simulated=True,
        fence=work.number,
        whom=work.user,  # its processes have no relatives on this machine: they belong by name
    )
    return BookEntry(f"{lease.id}.lease", lease.owner.uid, work.user, True, lease)


def lease_id(work: DemoWork) -> str:
    return f"{work.user[:3]}{work.number:03}"


def _owner(demo: Demo, work: DemoWork) -> Owner:
    return Owner(
        _uid(work.user), work.user, demo.pid(work), 0, 0, pid_namespace=pid_scope().pid_namespace
    )


def _uid(user: str) -> int:
    return FIRST_UID + sum(user.encode())
