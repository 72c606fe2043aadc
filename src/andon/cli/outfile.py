"""Files that commands write: whole or not at all; or line by line, readable after a crash, a full
disk or a rename."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from andon.errors import AndonError, Conflict, Denied, Unavailable
from andon.host.files import lock, unlock
from andon.units import sh

HEADER_BYTES = 64 * 1024  # more than any header of ours


class LineFile:
    """One write per line; failures are counted, reported once, and retried with the next line."""

    def __init__(self, path: Path, header: str, notice: Callable[[str], None]) -> None:
        self.path = path
        self.lost = 0
        self._header = header
        self._notice = notice
        self._fd: int | None = None
        self._torn = False  # a write ended in mid-line
        self._unreported = 0

    def open(self) -> None:
        """Check that the file can be opened and has the same columns."""
        try:
            self._open()
        except OSError as exc:
            raise refusal(self.path, exc) from exc

    def append(self, line: str) -> None:
        """Write one line, which ends in a newline; never raises for a disk error."""
        try:
            self._follow_the_name()
            self._put(line.encode())
        except (OSError, AndonError) as exc:
            self._failed(exc)
        else:
            self._recovered()

    def close(self) -> None:
        """Close the file, and report the lines that could not be written."""
        if self._unreported:
            self._notice(f"{self.path}: {self._unreported} lines are missing at its end")
            self._unreported = 0
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOCTTY
        fd = os.open(self.path, flags, 0o644)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                self._prepare(fd)
            elif self._header:  # a pipe or a terminal has no header to compare
                os.write(fd, self._header.encode())
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def _prepare(self, fd: int) -> None:
        """Writes the header under a lock: two writers starting together would both write one."""
        _lock_for_a_moment(fd)
        size = os.fstat(fd).st_size
        if size and self._header:
            self._compare(_read_at(fd, 0, HEADER_BYTES))
        if size and _read_at(fd, size - 1, 1) != b"\n":
            os.write(fd, b"\n")  # an earlier writer was killed in mid-line
        if not size and self._header:
            os.write(fd, self._header.encode())
        _unlock(fd)

    def _compare(self, start: bytes) -> None:
        first = start.split(b"\n", 1)[0].rstrip(b"\r").decode(errors="replace")
        if first != self._header.rstrip("\n"):
            raise Conflict(
                f"{self.path} has different columns",
                hint="choose another file, or move this one away",
            )

    def _follow_the_name(self) -> None:
        """Reopen a file that was renamed or deleted, or whose directory was removed."""
        if self._fd is not None and not self._is_ours(self._fd):
            self._close_descriptor()
            self._torn = False
        if self._fd is None:
            self._open()

    def _is_ours(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self.path.stat())
        except OSError:
            return False

    def _put(self, data: bytes) -> None:
        assert self._fd is not None
        if self._torn:
            data = b"\n" + data
        written = os.write(self._fd, data)
        if written:
            self._torn = data[written - 1 : written] != b"\n"
        if written < len(data):
            raise OSError(0, "only part of a line could be written")

    def _failed(self, exc: Exception) -> None:
        self.lost += 1
        self._unreported += 1
        if self._unreported == 1:
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            self._notice(f"{self.path}: {reason}; continuing, and retrying with every line")

    def _recovered(self) -> None:
        if self._unreported:
            self._notice(f"{self.path}: writing again; {self._unreported} lines are missing")
            self._unreported = 0


def refusal(path: Path, error: OSError) -> AndonError:
    """Returns why the file cannot be opened."""
    if isinstance(error, FileNotFoundError):
        hint = f"mkdir -p {sh(path.parent)}"
        return Unavailable(f"{path}: its directory does not exist", hint=hint)
    if isinstance(error, PermissionError):
        return Denied(f"{path}: no permission to write")
    return Unavailable(f"{path}: {error.strerror}")


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Yields the path of a temporary file, which is renamed to `out` at the end."""
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(out)
    except PermissionError as exc:
        hint = "use another directory"
        raise Denied(f"{out} cannot be written: {exc.strerror}", hint=hint) from exc
    except OSError as exc:
        hint = f"mkdir -p {sh(out.parent)}" if isinstance(exc, FileNotFoundError) else ""
        raise Unavailable(f"{out} cannot be written: {exc.strerror or exc}", hint=hint) from exc
    finally:
        unfinished.unlink(missing_ok=True)


def _read_at(fd: int, place: int, count: int) -> bytes:
    """Reads at an offset; the file is open for appending, so writes do not move."""
    os.lseek(fd, place, os.SEEK_SET)
    return os.read(fd, count)


def _lock_for_a_moment(fd: int) -> None:
    """Takes the lock if possible: some systems have none, and others may hold it for long."""
    for _ in range(20):
        try:
            lock(fd)
        except BlockingIOError:
            time.sleep(0.05)
        except (OSError, Unavailable):
            return
        else:
            return


def _unlock(fd: int) -> None:
    with suppress(OSError, Unavailable):
        unlock(fd)
