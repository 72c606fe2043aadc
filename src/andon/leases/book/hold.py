"""A held lease or ticket: the descriptors that are its lock, and how it is released."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import Gone, Unavailable
from andon.host.clock import clocks
from andon.host.files import NO_FOLLOW, unlock
from andon.leases.book import files
from andon.leases.rules.validity import LeaseEnd, begun, followed, to_show
from andon.model import wire
from andon.model.codec import to_json
from andon.model.lease import Lease, Work


class Hold(Struct):
    """A locked file of the book.

    `folder` has its own shared lock: without one, systemd-tmpfiles deletes the file although it is
    locked. Both descriptors may be inherited, and every process that has them holds the lease; any
    of them releases it for all.
    """

    name: str
    descriptor: int
    folder: int
    pid: int = field(default_factory=os.getpid)  # a forked child does not release what it inherits
    place: str = ""  # the file's path when it was created: a book may be moved away
    writing: threading.Lock = field(default_factory=threading.Lock)  # while it is written again

    @property
    def descriptors(self) -> tuple[int, int]:
        return self.descriptor, self.folder

    @property
    def stands(self) -> bool:
        """Whether the file still has a name in a directory."""
        return self.descriptor >= 0 and os.fstat(self.descriptor).st_nlink > 0

    @property
    def is_in_book(self) -> bool:
        """Whether this same file is still at the path where it was written."""
        if not self.place or not self.stands:
            return self.stands
        try:
            found = os.stat(self.place, follow_symlinks=False)  # noqa: PTH116 - once a second
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # unknown for now
            return True
        return os.path.samestat(found, os.fstat(self.descriptor))

    @property
    def stamped(self) -> float:
        return os.fstat(self.descriptor).st_mtime

    def stamp(self, at: float) -> None:
        files.stamp(self.descriptor, at)

    def add(self, work: Work) -> None:
        """Appends what the lease is for: what others read is never rewritten.

        On a full file system this line is lost, not the lease. The file's time is the lease's
        end; writing changes it, so it is restored.
        """
        ends = os.fstat(self.descriptor).st_mtime_ns
        with suppress(OSError):
            os.write(self.descriptor, _next_line(self.descriptor, {"work": to_json(work)}))
        os.utime(self.descriptor, ns=(ends, ends))

    def name_container(self, container: str) -> None:
        """Appends the id of a container before it is started: without it in the book, its processes
        would be strangers on their own devices. So a failure is an error."""
        append_container(self.descriptor, container)

    def replace_with(self, other: "Hold") -> None:
        """Holds another file from now on, for every user of this object."""
        self.close()
        self.name, self.place, self.pid = other.name, other.place, other.pid
        self.descriptor, self.folder = other.descriptors

    def release(self) -> None:
        """Releases it. The file is removed first: no valid lease in the book is ever unlocked."""
        if self.descriptor < 0 or os.getpid() != self.pid:
            return
        files.remove(self.folder, self.name)
        with suppress(OSError):
            unlock(self.descriptor)
        self.close()

    def close(self) -> None:
        """Closes our descriptors; the lock stays with other processes that have them."""
        for descriptor in (self.descriptor, self.folder):
            with suppress(OSError):
                os.close(descriptor)
        self.descriptor = self.folder = -1


def append_container(descriptor: int, container: str) -> None:
    """Adds a container to a lease's file; its time, which is the lease's end, stays as it is."""
    ends = os.fstat(descriptor).st_mtime_ns
    try:
        line = _next_line(descriptor, {"container": container})
        written = os.write(descriptor, line)
    except OSError as exc:
        raise Unavailable(
            f"the container cannot be written into its lease: {exc.strerror}",
            hint="check the file system of the lease book: andon doctor",
        ) from exc
    finally:
        os.utime(descriptor, ns=(ends, ends))
    if written < len(line):
        raise Unavailable("the file system of the lease book is full")


def _next_line(descriptor: int, value: wire.Json) -> bytes:
    """Returns JSON as a line; begins a new line if the previous one is incomplete (full disk)."""
    size = os.fstat(descriptor).st_size
    torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    return (b"\n" if torn else b"") + f"{wire.dumps(value)}\n".encode()


def name_container_in(file: Path, container: str) -> None:
    """Names the container of a lease of this user that another process holds."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | NO_FOLLOW)
    except OSError as exc:
        raise Gone(f"the lease has ended: {exc.strerror}") from exc
    try:
        append_container(descriptor, container)
    finally:
        os.close(descriptor)


class Countdown(Struct):
    """The time left of a lease, regardless of changes to the wall clock."""

    hold: Hold
    end: LeaseEnd

    def left_seconds(self) -> float:
        """Returns the time left; follows a changed end, and corrects the file's time."""
        wall, boot = clocks()
        if self.hold.descriptor >= 0:
            self.end = followed(self.end, self.hold.stamped, wall, boot)
            if (right := to_show(self.end, wall, boot)) is not None:
                with suppress(OSError):
                    self.hold.stamp(right)
                self.end = replace(self.end, shown=self.hold.stamped)
        return self.end.deadline - boot


class LeaseHold(Struct):
    """A lease that this process holds, alone or with others."""

    lease: Lease
    hold: Hold
    countdown: Countdown | None = None
    before_release: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        if self.lease.until is not None:
            self.countdown = Countdown(self.hold, begun(self.hold.stamped, *clocks()))

    def left_seconds(self) -> float | None:
        """Returns the time until the lease ends; None if it has no end."""
        return None if self.countdown is None else self.countdown.left_seconds()

    def until(self) -> float | None:
        """When the lease ends, in wall clock time; its owner can change that from any process."""
        if self.countdown is None:
            return None
        self.countdown.left_seconds()
        return self.countdown.end.shown

    def release(self) -> None:
        if self.hold.descriptor >= 0 and os.getpid() == self.hold.pid:
            self.before_release()
        self.hold.release()
