"""Appends lines to a new file, in a process of its own.

It runs as a script, without andon: a folder that does not respond blocks a process that writes
to it, and a process blocked in the kernel cannot even exit. The first argument is the file; a
second one means that no user chose its folder: root then writes into no folder that another user
could have made or could replace. Lines arrive on standard input, and a line of one zero byte, or
the end of input, ends it. The file is locked until all lines are in it, also those of a process
that was killed. Failures are reported on standard output: the error, then how many lines were
lost.
"""

# ruff: noqa: PTH101,PTH102,PTH112,PTH116,PTH120
# pathlib takes longer to import than all of this runs

import _signal  # type: ignore[import-not-found]
import os
import stat
import sys

END = b"\0"
SENT_TO_ALL = ("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2")
"""Signals that a cluster sends to every process of a job: the end of its record is yet to come."""
PIECE_BYTES = 1 << 16


def make_folder(folder: str) -> None:
    """Creates a folder with its parents, private to its owner, whatever the umask."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    if above != folder:
        make_folder(above)
    try:
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise


def refuse_anothers(path: str) -> None:
    """Checks for root, as with `sudo -E`, that every folder and link on the path is root's."""
    while os.geteuid() == 0 and path != os.path.dirname(path):
        path = os.path.dirname(path)
        try:
            owner = os.lstat(path).st_uid
        except OSError:
            continue
        if owner != 0:
            why = f"{path} belongs to another user (uid {owner}); use sudo -H"
            raise PermissionError(1, why)


def open_new(path: str, chosen: bool = True) -> int:
    if not chosen:
        refuse_anothers(path)
    make_folder(os.path.dirname(path))
    made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
    try:
        import fcntl

        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # Windows, and some file systems, cannot
        return made
    return made


class LineAppender:
    """Writes whole lines in one write; after an incomplete one, on a line of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._torn = descriptor, False
        self.lost, self.problem = 0, ""

    def append(self, lines: bytes) -> None:
        data = b"\n" + lines if self._torn else lines
        try:
            written = os.write(self._descriptor, data)
        except OSError as error:
            self._lose(lines, str(error.strerror))
            return
        self._torn = written > 0 and data[written - 1 : written] != b"\n"
        if written < len(data):
            self._lose(data[written:], "only a part could be written")

    def _lose(self, lines: bytes, problem: str) -> None:
        self.lost += lines.count(b"\n")
        if not self.problem:
            self.problem = problem
            report(problem)


def report(text: str) -> None:
    try:
        os.write(1, f"{text}\n".encode())
    except OSError:  # no one listens any more
        return


def main(path: str, chosen: bool) -> None:
    for name in SENT_TO_ALL:
        if hasattr(_signal, name):
            _signal.signal(getattr(_signal, name), _signal.SIG_IGN)
    try:
        target = LineAppender(open_new(path, chosen))
    except OSError as error:
        report(str(error.strerror))
        sys.exit(1)
    rest = b""
    while piece := os.read(0, PIECE_BYTES):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        ended = whole == END or whole.endswith(b"\n" + END)
        whole = whole[: -len(END)] if ended else whole + newline
        if whole:
            target.append(whole)
        if ended:
            break
    if target.lost:
        report(str(target.lost))
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], len(sys.argv) == 2)
