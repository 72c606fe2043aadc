"""What a cluster's own command printed last and which labels were submitted, in files.

It is asked for its list every five seconds at most, whichever of a user's commands and servers
wants to know.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from andon.host.files import make_private, open_regular, read_regular
from andon.jobs.folder import write_whole
from andon.jobs.rules.polling import FRESH_SECONDS, is_fresh

LARGEST_BYTES = 64 << 20
_MARK_BYTES = 4096


class KeptAnswers:
    """Answers in a folder of this user's; where that cannot be written, each question is asked.
    Others may write to one that the settings name: their files are no answers and no lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str, ask: Callable[[], str], seconds: float = FRESH_SECONDS) -> str:
        """Returns the last answer if it is fresh; else asks. Who asks at the same time waits for
        that answer."""
        with self._locked():
            path = self._folder / f".{name}"
            with suppress(OSError):
                if is_fresh(path.stat().st_mtime, time.time(), seconds):
                    return read_regular(path, LARGEST_BYTES, own=True).decode("utf-8", "replace")
            answer = ask()
            with suppress(OSError):
                write_whole(self._folder, path.name, answer, sync=False)
            return answer

    def forget(self, *names: str) -> None:
        """Makes the next question ask: this user's jobs were changed."""
        with self._locked():
            for name in names:
                with suppress(OSError):
                    (self._folder / f".{name}").unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with suppress(OSError):
            make_private(self._folder)
        try:
            descriptor = open_regular(self._folder / ".lock", os.O_RDWR | os.O_CREAT, own=True)
        except OSError:
            yield
            return
        try:
            with suppress(OSError):  # some shared file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class SubmittedLabels:
    """The labels that were handed to a cluster, each in a file that is empty until the id is known.
    Only such a label has to be looked for in its list."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, label: str) -> str | None:
        """Notes that it is about to be submitted; returns its id, empty if that is not known, or
        None if it is submitted for the first time."""
        path = self._folder / f"{label}.id"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return read_regular(path, _MARK_BYTES, own=True).decode("utf-8", "replace")
        return None

    def submitted(self, label: str, job: str) -> None:
        with suppress(OSError):  # it is found by its label
            write_whole(self._folder, f"{label}.id", job, sync=False)

    def refused(self, label: str) -> None:
        with suppress(OSError):
            (self._folder / f"{label}.id").unlink()
