"""Follows the kernel log from now on, where it may be read."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from andon.host.files import NO_WAIT
from andon.model.event import Event

RECORD_BYTES = 8192  # the kernel returns one record per read, and none is longer
MOST_RECORDS = 512  # per read; a flood continues with the next


class KernelLog:
    """Implements ports.EventSource. Never blocks: `read` returns what has been logged since. With
    `past`, it begins at the boot."""

    def __init__(
        self, root: Path, clock: Callable[[], float] = time.time, past: bool = False
    ) -> None:
        self.reason: str | None = None
        """Why it cannot be read; None while it can."""
        self._clock = clock
        self._file = -1
        try:
            self._file = os.open(root / "dev/kmsg", os.O_RDONLY | NO_WAIT)
            if not past:
                os.lseek(self._file, 0, os.SEEK_END)
        except OSError as exc:
            self.reason = exc.strerror or str(exc)
            self.close()

    def read(self) -> Sequence[Event]:
        """Returns the events since the last read."""
        if self._file < 0:
            return ()
        records = self._records()
        if not records:
            return ()
        from andon.events.rules.kernel_log import parse_record

        at = self._clock()
        found = (parse_record(record, at) for record in records)
        return [event for event in found if event is not None]

    def numbered(self) -> list[tuple[int, Event]]:
        """Returns the events of all records, each with the number of its record."""
        from andon.events.rules.kernel_log import parse_record

        found: list[tuple[int, Event]] = []
        while self._file >= 0 and (records := self._records()):
            events = ((record, parse_record(record, self._clock())) for record in records)
            found += [(int(record.split(",", 2)[1]), one) for record, one in events if one]
        return found

    def close(self) -> None:
        if self._file >= 0:
            descriptor, self._file = self._file, -1
            os.close(descriptor)

    def _records(self) -> list[str]:
        found: list[str] = []
        for _ in range(MOST_RECORDS):
            try:
                data = os.read(self._file, RECORD_BYTES)
            except BlockingIOError:
                break
            except (
                BrokenPipeError
            ):  # records were overwritten before they were read: continue after them
                continue
            except OSError as exc:
                self.reason = exc.strerror or str(exc)
                self.close()
                break
            if not data:
                break
            found += _split(data.decode(errors="replace"))
        return found


def _split(text: str) -> list[str]:
    """Splits the text into records, each with its keys on lines that begin with a space.

    Splits at line feeds only: the kernel escapes those in a message, but no other line ends.
    """
    found: list[str] = []
    for line in text.split("\n"):
        if line.startswith(" ") and found:
            found[-1] += f"\n{line}"
        elif line:
            found.append(line)
    return found
