"""The calls of a long-running worker: one process per place, one line per item."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from andon.work.map.calls import (
    GRACE_SECONDS,
    KEPT_BYTES,
    CallEnd,
    CallGroup,
    CallOutput,
    ending_words,
    late_words,
    new_file,
)
from andon.work.rules.map.items import MapItem
from andon.work.rules.map.plan import MapUnit
from andon.work.rules.map.worker_lines import LONGEST_ANSWER, WorkerAnswer, answer_of, request_line

PIECE_BYTES = 1 << 16
LEAVE_SECONDS = 30.0  # after its input is closed


class WorkerCaller:
    """Starts the worker with the first item, and again after it has died."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Callable[[], Sequence[int]] = tuple,
        timeout_seconds: float | None = None,
    ) -> None:
        self._command, self._environment = list(command), dict(environment)
        self._descriptors, self._timeout = descriptors, timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._read_errors = 0
        self._rest = b""
        self._current = CallGroup()

    def call(self, unit: MapUnit) -> CallEnd:
        began = time.monotonic()
        (item,) = unit.items
        try:
            process = self._started()
        except OSError as exc:
            words = f"the worker could not be started: {exc.strerror}"
            return CallEnd(False, time.monotonic() - began, words)
        output = LastBytes()
        answer, trouble = self._ask(process, item, output)
        interrupted = False
        if answer is None:
            interrupted = self._gone(process)
            code = process.returncode
            trouble = trouble or f"the worker ended before it answered ({ending_words(code) or 0})"
        elif not answer.ok:
            trouble = answer.error or "the worker reported a failure"
        return CallEnd(
            answer is not None and answer.ok,
            time.monotonic() - began,
            trouble,
            CallOutput(output.content()),
            CallOutput(self._new_errors()),
            None if answer is None else answer.result,
            interrupted,
        )

    def end(self, number: int) -> None:
        self._current.send(number)

    def close(self) -> None:
        """Closes its input and waits for it; a worker that stays is ended."""
        try:
            if self._process is not None:
                self._leave(self._process)
        finally:
            if self._errors is not None:
                self._errors.close()

    def _leave(self, process: "subprocess.Popen[bytes]") -> None:
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        self._drain(process)
        if process.poll() is None:
            self._current.wait(process, GRACE_SECONDS)
        self._gone(process)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            if self._errors is None:
                self._errors = new_file()
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                pass_fds=self._descriptors(),
                process_group=0,
                bufsize=0,
            )
            assert self._process.stdin is not None
            os.set_blocking(self._process.stdin.fileno(), False)
            self._rest = b""
        self._current.began(self._process)
        return self._process

    def _ask(
        self, process: "subprocess.Popen[bytes]", item: MapItem, output: "LastBytes"
    ) -> tuple[WorkerAnswer | None, str]:
        """Returns a worker's answer, or why there is none. While a long item is written, its
        output is read: a worker that writes before it reads would otherwise wait for us, and we
        for it."""
        until = None if self._timeout is None else time.monotonic() + self._timeout
        unsent = memoryview(request_line(item))
        while True:
            while (end := self._rest.find(b"\n")) >= 0:
                line, self._rest = self._rest[: end + 1], self._rest[end + 1 :]
                answer = answer_of(line)
                if answer is not None and answer.index == item.index:
                    return answer, ""
                output.append(line)
            if len(self._rest) > LONGEST_ANSWER:
                output.append(self._rest)
                self._rest = b""
            ready = self._ready(process, until, bool(unsent))
            if not ready or _is_past(until):  # also one that never stops printing is late
                return None, late_words(self._timeout or 0.0)
            if unsent and process.stdin in ready:
                try:
                    unsent = unsent[os.write(process.stdin.fileno(), unsent) :]
                except OSError:  # it has closed its input
                    return None, ""
            if process.stdout in ready:
                piece = self._piece(process)
                if not piece:
                    output.append(self._rest)
                    return None, ""
                self._rest += piece

    def _ready(
        self, process: "subprocess.Popen[bytes]", until: float | None, sending: bool = False
    ) -> list[IO[bytes]]:
        """Returns which of its pipes can be used or were closed; none if it is late."""
        assert process.stdin is not None
        assert process.stdout is not None
        pipes = {process.stdout.fileno(): process.stdout}
        watched = select.poll()
        watched.register(process.stdout, select.POLLIN)
        if sending:
            watched.register(process.stdin, select.POLLOUT)
            pipes[process.stdin.fileno()] = process.stdin
        left = None if until is None else max(0.0, until - time.monotonic()) * 1000
        return [pipes[descriptor] for descriptor, _ in watched.poll(left)]

    def _piece(self, process: "subprocess.Popen[bytes]") -> bytes:
        assert process.stdout is not None
        return os.read(process.stdout.fileno(), PIECE_BYTES)

    def _drain(self, process: "subprocess.Popen[bytes]") -> None:
        """Reads what the worker still writes at its end, so that it can end."""
        until = time.monotonic() + LEAVE_SECONDS
        while self._ready(process, until) and not _is_past(until):
            if not self._piece(process):
                return

    def _gone(self, process: "subprocess.Popen[bytes]") -> bool:
        """Ends what is left of the worker; returns whether we had asked it to end before."""
        asked = self._current.ended()
        self._current.began(process)
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGTERM)
            self._current.wait(process, GRACE_SECONDS)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._current.ended()
        self._process = None
        return asked

    def _new_errors(self) -> bytes:
        if self._errors is None:
            return b""
        size = os.fstat(self._errors.fileno()).st_size
        new = size - self._read_errors
        self._read_errors = size
        return os.pread(self._errors.fileno(), min(KEPT_BYTES, new), size - min(KEPT_BYTES, new))


def _is_past(moment: float | None) -> bool:
    return moment is not None and time.monotonic() >= moment


class LastBytes:
    """The last bytes of an output of any length."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def append(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > 2 * KEPT_BYTES:
            self._pieces, self._size = [self.content()], KEPT_BYTES

    def content(self) -> bytes:
        return b"".join(self._pieces)[-KEPT_BYTES:]
