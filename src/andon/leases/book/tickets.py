"""A place in the queue: a locked ticket, and a file next to it that says "awake".

The ticket's ctime is when it joined the queue: no one can set that, and touching a ticket moves it
to the end. A ticket without an awake file is not in the queue.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from andon.host.files import lock, unlock
from andon.leases.book import files
from andon.leases.book.hold import Hold

TICKET_SUFFIX, AWAKE_SUFFIX = ".ticket", ".awake"
RESUME_TRIES = 20


class TicketHold(Hold):
    """A locked ticket. Parked, it keeps its place although it is not in the queue."""

    awake: int = -1

    @property
    def queued(self) -> float:
        """When it joined the queue."""
        return os.fstat(self.descriptor).st_ctime

    def stamp(self, at: float) -> None:
        files.stamp(self.awake, at)

    def park(self) -> None:
        """Leaves the queue for a moment; others see that at once."""
        files.remove(self.folder, awake_name(self.name))
        self._sleep()
        with suppress(OSError):
            unlock(self.descriptor)

    def resume(self, at: float) -> bool:
        """Returns to the same place; False if the ticket was removed meanwhile, or another
        process keeps it locked."""
        for _ in range(RESUME_TRIES):
            try:
                lock(self.descriptor)
            except BlockingIOError:  # another process is checking whether it is locked
                os.sched_yield()
                continue
            return self.stands and self._wake(at)
        return False

    def _wake(self, at: float) -> bool:
        with suppress(OSError):
            self.awake = os.open(awake_name(self.name), files.MAKE, 0o644, dir_fd=self.folder)
            self.stamp(at)
            return True
        return False

    def release(self) -> None:
        if self.descriptor >= 0 and os.getpid() == self.pid:
            files.remove(self.folder, awake_name(self.name))
        Hold.release(self)

    def close(self) -> None:
        self._sleep()
        Hold.close(self)

    def _sleep(self) -> None:
        with suppress(OSError):
            os.close(self.awake)
        self.awake = -1


def make(folder: int, name: str, text: str) -> tuple[int, int]:
    """Creates a ticket and its awake file, which comes first; returns their descriptors."""
    beside = awake_name(name)
    awake = os.open(beside, files.MAKE, 0o644, dir_fd=folder)
    try:
        return files.make(folder, name, text), awake
    except BaseException:
        files.remove(folder, beside)
        os.close(awake)
        raise


def move_to_end(folder: int, ticket_id: str, uid: int) -> None:
    """Moves a user's ticket to the end by touching it; its own time, when it was made, stays."""
    with os.scandir(folder) as entries:
        found = [e for e in entries if e.name.startswith(f"{ticket_id}-")]
    for entry in found:
        if entry.name.endswith(TICKET_SUFFIX) and files.owner_of(entry) == uid:
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                times = (facts.st_mtime_ns, facts.st_mtime_ns)
                os.utime(entry.name, ns=times, dir_fd=folder, follow_symlinks=False)


def awake_name(name: str) -> str:
    return name.removesuffix(TICKET_SUFFIX) + AWAKE_SUFFIX


def last_awake(folder: int, found: files.BookFile) -> float | None:
    """Returns when a ticket's owner was last awake: the time of its awake file, if the same user
    owns it; None for a ticket that is not in the queue."""
    try:
        facts = os.stat(awake_name(found.name), dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return facts.st_mtime if facts.st_uid == found.uid else None


def ids(names: Iterable[str]) -> frozenset[str]:
    """Returns the ids of the tickets in the queue, dead or alive, from the file names."""
    return frozenset(name.partition("-")[0] for name in names if name.endswith(AWAKE_SUFFIX))


def sweep(folder: int, uid: int) -> None:
    """Removes the tickets that are not held, as far as this user may."""
    for found in files.scan(folder, TICKET_SUFFIX):
        if not found.locked and uid in (0, found.uid):
            files.remove(folder, awake_name(found.name))
            files.remove(folder, found.name)
    with os.scandir(folder) as entries:
        names = {entry.name: entry for entry in entries}
    for name, entry in names.items():
        ticket = name.removesuffix(AWAKE_SUFFIX) + TICKET_SUFFIX
        alone = name.endswith(AWAKE_SUFFIX) and ticket not in names
        if alone and uid in (0, files.owner_of(entry)):
            files.remove(folder, name)
