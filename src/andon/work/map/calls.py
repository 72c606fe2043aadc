"""One call of a map: a command that is started for its items."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from subprocess import DEVNULL
from typing import IO, Any, Protocol

from msgspec import Struct

from andon.units import human_seconds
from andon.work.process_group import ProcessGroup
from andon.work.rules.map.plan import MapUnit

TAIL_BYTES = 4000
MOST_OUTPUT_BYTES = 1 << 20  # a longer output stays in its file


class CallOutput(Struct):
    """The output of a call to one stream; small outputs are in memory."""

    content: bytes = b""
    file: IO[bytes] | None = None

    @classmethod
    def of(cls, file: IO[bytes]) -> "CallOutput":
        if os.fstat(file.fileno()).st_size > MOST_OUTPUT_BYTES:
            return cls(file=file)
        with file:
            return cls(os.pread(file.fileno(), MOST_OUTPUT_BYTES, 0))

    def tail(self) -> bytes:
        if self.file is None:
            return self.content[-TAIL_BYTES:]
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES))

    def copy_to(self, write: Callable[[bytes], None]) -> None:
        """Writes all of it, in pieces; afterwards it is gone."""
        if self.file is None:
            if self.content:
                write(self.content)
            return
        with self.file as file:
            place = 0
            while piece := os.pread(file.fileno(), MOST_OUTPUT_BYTES, place):
                write(piece)
                place += len(piece)


class CallEnd(Struct, frozen=True):
    """How a call ended."""

    ok: bool
    seconds: float
    reason: str = ""  # why not
    output: CallOutput | None = None
    errors: CallOutput | None = None
    result: Any = None  # of a worker that stays
    interrupted: bool = False  # we ended it
    begun: bool = True  # else it is left to others
    place: str = ""  # where it was worked on, if that was known at its end alone
    at: float | None = None  # when it ended, if that was earlier

    def tail(self) -> str:
        """Returns the end of its output; errors first if there are any."""
        printed = b"".join(one.tail() for one in (self.output, self.errors) if one is not None)
        return printed[-TAIL_BYTES:].decode(errors="replace")


class ItemLimits(Struct, frozen=True):
    """How long a call may take, how long it has to end, and the CPUs that it is bound to."""

    grace_seconds: float
    timeout_seconds: float | None = None
    cpus: frozenset[int] | None = None


class Caller(Protocol):
    """Makes the calls of one worker, one after the other."""

    def call(self, unit: MapUnit) -> CallEnd: ...
    def end(self, number: int) -> None:
        """Ends or kills the current call, with this signal; may be called from any thread."""

    def close(self) -> None: ...


class CommandCaller:
    """Starts a command for each call, in a process group of its own.

    Its output goes to files: a command outlives a killed map without noticing, and its lock on the
    device lasts as long as it does.
    """

    def __init__(
        self,
        command: Callable[[MapUnit], Sequence[str]],
        environment: Mapping[str, str],
        descriptors: Callable[[], Sequence[int]],
        limits: ItemLimits,
    ) -> None:
        """`descriptors` returns the locks to inherit, new ones if the lease is rewritten."""
        self._command, self._environment = command, dict(environment)
        self._descriptors, self._limits = descriptors, limits
        self._group: ProcessGroup | None = None

    def call(self, unit: MapUnit) -> CallEnd:
        began = time.monotonic()
        output, errors = new_file(), new_file()
        try:
            group = self._group = ProcessGroup(
                self._command(unit),
                self._environment,
                self._limits.grace_seconds,
                self._limits.cpus,
                stdin=DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=self._descriptors(),
            )
        except (OSError, ValueError) as exc:  # ValueError: a NUL in an argument
            output.close()
            errors.close()
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            return CallEnd(False, time.monotonic() - began, f"could not be started: {reason}")
        timeout = self._limits.timeout_seconds
        late = not group.ends_within(timeout)
        interrupted = group.end_requested
        code = group.close() if late else group.reap()
        self._group, seconds = None, time.monotonic() - began
        reason = ending_reason(code, timeout if late else None)
        return CallEnd(
            code == 0 and not late, seconds, reason, CallOutput.of(output), CallOutput.of(errors),
            interrupted=interrupted,
        )  # fmt: skip

    def end(self, number: int) -> None:
        if (group := self._group) is not None:
            group.end(number)

    def close(self) -> None:
        pass  # nothing outlives its call


def new_file() -> IO[bytes]:
    """Opens a file without a name, which exists while a process has it open."""
    return tempfile.TemporaryFile()


def ending_reason(code: int, timeout_seconds: float | None = None) -> str:
    """Describes how a command ended."""
    if timeout_seconds is not None:
        return late_reason(timeout_seconds)
    if code < 0:
        return f"ended by {_signal_name(-code)}"
    return "" if code == 0 else f"exit code {code}"


def late_reason(seconds: float) -> str:
    return f"took longer than {human_seconds(seconds)} (--item-timeout)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
