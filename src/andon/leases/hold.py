"""A lease or a ticket that is held: the descriptors that are its lock, and how it is given back."""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass, field

from andon.errors import Gone
from andon.leases import files
from andon.model import wire, work_wire
from andon.model.work import Lease, Work


@dataclass(slots=True)
class Hold:
    """A locked file of the book.

    `folder` carries a shared lock of its own: without one, systemd-tmpfiles deletes the file
    although it is locked. Both descriptors may be inherited, and every process that has them holds
    the lease; whoever releases it releases it for all.
    """

    name: str
    descriptor: int
    folder: int
    pid: int = field(default_factory=os.getpid)  # a forked child does not release what it inherits

    @property
    def descriptors(self) -> tuple[int, int]:
        return self.descriptor, self.folder

    @property
    def stands(self) -> bool:
        """Whether the file is still in the book."""
        return self.descriptor >= 0 and os.fstat(self.descriptor).st_nlink > 0

    @property
    def stamped(self) -> float:
        return os.fstat(self.descriptor).st_mtime

    def stamp(self, at: float) -> None:
        files.stamp(self.descriptor, at)

    def add(self, work: Work) -> None:
        """Say what the lease is for; a line more, because nothing that is read is ever rewritten.

        A book that is full loses this line and not the lease. The file's time is its end, and
        writing moves it.
        """
        ends = self.stamped
        with suppress(OSError):
            os.write(self.descriptor, (wire.dumps(work_wire.work_to_json(work)) + "\n").encode())
        self.stamp(ends)

    def release(self) -> None:
        """Give it back. The file goes first: what is in the book is never unlocked and alive."""
        if self.descriptor < 0 or os.getpid() != self.pid:
            return
        files.remove(self.folder, self.name)
        with suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        """Let go of our own descriptors; the lock stays with whoever else has them."""
        for descriptor in (self.descriptor, self.folder):
            with suppress(OSError):
                os.close(descriptor)
        self.descriptor = self.folder = -1


@dataclass(slots=True)
class LeaseHold:
    """A lease that this process holds, or holds together with others."""

    lease: Lease
    hold: Hold

    def until(self) -> float | None:
        """When it ends: the file's own time, so that its owner can move it from anywhere."""
        return None if self.lease.until is None else self.hold.stamped

    def extend(self, until: float) -> None:
        if self.lease.until is None:
            return
        if not self.hold.stands:
            raise Gone(f"lease {self.lease.id} has ended")
        self.hold.stamp(until)

    def release(self) -> None:
        self.hold.release()
