"""One call of a map: a command that is started for its items."""

import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Protocol

from msgspec import Struct

from andon.host.topology import on_cpus
from andon.model.naming import title
from andon.runs.record import RunRecorder
from andon.units import human_seconds
from andon.work.map.places import WorkPlace
from andon.work.preparing import bound_line, bound_to
from andon.work.rules.map.plan import MapUnit

GRACE_SECONDS = 5.0  # between SIGTERM and SIGKILL
TAIL_BYTES = 4000
KEPT_BYTES = 1 << 20  # a longer output stays in its file


class CallOutput(Struct):
    """The output of a call to one stream; small outputs are in memory."""

    content: bytes = b""
    file: IO[bytes] | None = None

    @classmethod
    def of(cls, file: IO[bytes]) -> "CallOutput":
        if os.fstat(file.fileno()).st_size > KEPT_BYTES:
            return cls(file=file)
        with file:
            return cls(os.pread(file.fileno(), KEPT_BYTES, 0))

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
            while piece := os.pread(file.fileno(), KEPT_BYTES, place):
                write(piece)
                place += len(piece)


class CallEnd(Struct, frozen=True):
    """How a call ended."""

    ok: bool
    seconds: float
    words: str = ""  # why not
    output: CallOutput | None = None
    errors: CallOutput | None = None
    result: Any = None  # of a worker that stays
    interrupted: bool = False  # we ended it

    def tail(self) -> str:
        """Returns the end of its output; errors first if there are any."""
        said = b"".join(one.tail() for one in (self.output, self.errors) if one is not None)
        return said[-TAIL_BYTES:].decode(errors="replace")


class Caller(Protocol):
    """Makes the calls of one worker, one after the other."""

    def call(self, unit: MapUnit) -> CallEnd: ...
    def end(self, number: int) -> None:
        """Sends a signal to what runs now; may be called from any thread."""

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
        descriptors: Callable[[], Sequence[int]] = tuple,
        timeout_seconds: float | None = None,
    ) -> None:
        """`descriptors` are the locks that the command inherits: a lease may be written again."""
        self._command, self._environment = command, dict(environment)
        self._descriptors, self._timeout = descriptors, timeout_seconds
        self._current = CallGroup()

    def call(self, unit: MapUnit) -> CallEnd:
        began = time.monotonic()
        output, errors = new_file(), new_file()
        try:
            process = subprocess.Popen(
                self._command(unit),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                pass_fds=self._descriptors(),
                process_group=0,
            )
        except (OSError, ValueError) as exc:  # ValueError: a NUL in an argument
            output.close()
            errors.close()
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            return CallEnd(False, time.monotonic() - began, f"could not be started: {reason}")
        self._current.began(process)
        late = self._current.wait(process, self._timeout)
        code, seconds = process.wait(), time.monotonic() - began
        interrupted = self._current.ended()
        words = ending_words(code, self._timeout if late else None)
        return CallEnd(
            code == 0 and not late, seconds, words, CallOutput.of(output), CallOutput.of(errors),
            interrupted=interrupted,
        )  # fmt: skip

    def end(self, number: int) -> None:
        self._current.send(number)

    def close(self) -> None:
        pass  # nothing outlives its call


class CallGroup:
    """The process that runs now, and its group."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt the thread that has it
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = False

    def began(self, process: "subprocess.Popen[bytes]") -> None:
        with self._lock:
            self._process, self._asked = process, False

    def ended(self) -> bool:
        """Whether the process ended because we asked it to."""
        with self._lock:
            self._process = None
            return self._asked

    def send(self, number: int) -> None:
        """Sends a signal to the whole group; a stopped group handles it once it is resumed."""
        with self._lock:
            if self._process is not None and self._process.returncode is None:
                self._asked = self._asked or number in (signal.SIGTERM, signal.SIGKILL)
                _signal_group(self._process.pid, number)

    def wait(self, process: "subprocess.Popen[bytes]", seconds: float | None) -> bool:
        """Waits until the call ends; returns whether it had to be ended because it took too
        long."""
        if _ends_within(process.pid, seconds):
            return False
        _signal_group(process.pid, signal.SIGTERM)
        if not _ends_within(process.pid, GRACE_SECONDS):
            _signal_group(process.pid, signal.SIGKILL)
        return True


def new_file() -> IO[bytes]:
    """Opens a file without a name, which exists while a process has it open."""
    return tempfile.TemporaryFile()


def ending_words(code: int, timeout_seconds: float | None = None) -> str:
    """Describes how a command ended."""
    if timeout_seconds is not None:
        return late_words(timeout_seconds)
    if code < 0:
        return f"ended by {_signal_name(-code)}"
    return "" if code == 0 else f"exit code {code}"


def late_words(seconds: float) -> str:
    return f"took longer than {human_seconds(seconds)} (--item-timeout)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
        if number == signal.SIGTERM:
            os.killpg(pid, signal.SIGCONT)


def _ends_within(pid: int, seconds: float | None) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        return bool(watched.poll(None if seconds is None else seconds * 1000))
    finally:
        os.close(descriptor)


# Calls of a worker whose processes run on the CPUs next to its devices.


class BoundCaller(Struct, frozen=True):
    """Binds the worker's thread to CPUs; what a call starts inherits them."""

    caller: Caller
    cpus: frozenset[int]

    def call(self, unit: MapUnit) -> CallEnd:
        with on_cpus(self.cpus):
            return self.caller.call(unit)

    def end(self, number: int) -> None:
        self.caller.end(number)

    def close(self) -> None:
        self.caller.close()


def bound_caller(
    caller: Caller, place: WorkPlace, recorder: RunRecorder, notify: Callable[[str], None]
) -> Caller:
    """Returns the caller bound to CPUs as far as they are known; the record and one line name
    them, or the reason."""
    own = {device.uuid for device in place.devices}
    statuses = () if place.snapshot is None else place.snapshot.devices
    bound = bound_to([one.device for one in statuses if one.device.uuid in own])
    recorder.write(bound_line(bound, place.label))
    notify(f"{title(place.label)}: {bound.words}")
    return caller if bound.cpus is None else BoundCaller(caller, bound.cpus)
