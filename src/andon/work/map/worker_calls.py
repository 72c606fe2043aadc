"""The calls of a long-running worker: one process per place, one line per item."""

import contextlib
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from subprocess import PIPE
from typing import IO

from andon.work.map.calls import (
    MOST_OUTPUT_BYTES,
    CallEnd,
    CallOutput,
    ItemLimits,
    ending_reason,
    late_reason,
    new_file,
)
from andon.work.process_group import ProcessGroup
from andon.work.rules.map.items import MapItem
from andon.work.rules.map.plan import MapUnit
from andon.work.rules.map.worker_lines import LONGEST_ANSWER, WorkerAnswer, answer_of, request_line

PIECE_BYTES = 1 << 16
LEAVE_SECONDS = 30.0  # for a worker, after its input is closed


class WorkerCaller:
    """Starts the worker with the first item, and again after it has died."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Callable[[], Sequence[int]],
        limits: ItemLimits,
    ) -> None:
        self._command, self._environment = list(command), dict(environment)
        self._descriptors, self._limits = descriptors, limits
        self._group: ProcessGroup | None = None
        self._errors: IO[bytes] | None = None
        self._read_errors = 0
        self._rest = b""

    def call(self, unit: MapUnit) -> CallEnd:
        began = time.monotonic()
        (item,) = unit.items
        try:
            group = self._started()
        except OSError as exc:
            reason = f"the worker could not be started: {exc.strerror}"
            return CallEnd(False, time.monotonic() - began, reason)
        output = bytearray()
        answer, trouble = self._ask(group, item, output)
        interrupted = False
        if answer is None:
            interrupted = group.end_requested
            code = self._gone(group)
            trouble = trouble or f"the worker ended before it answered ({ending_reason(code) or 0})"
        elif not answer.ok:
            trouble = answer.error or "the worker reported a failure"
        return CallEnd(
            answer is not None and answer.ok,
            time.monotonic() - began,
            trouble,
            CallOutput(bytes(output[-MOST_OUTPUT_BYTES:])),
            CallOutput(self._new_errors()),
            None if answer is None else answer.result,
            interrupted,
        )

    def end(self, number: int) -> None:
        if (group := self._group) is not None:
            group.end(number)

    def close(self) -> None:
        """Closes its input and waits for it; a worker that stays is ended."""
        try:
            if self._group is not None:
                self._leave(self._group)
        finally:
            if self._errors is not None:
                self._errors.close()

    def _leave(self, group: ProcessGroup) -> None:
        with contextlib.suppress(OSError):
            if group.process.stdin is not None:
                group.process.stdin.close()
        self._drain(group)
        if group.ends_within(group.grace_seconds):
            group.reap()
        self._gone(group)

    def _started(self) -> ProcessGroup:
        if self._group is None:
            if self._errors is None:
                self._errors = new_file()
            self._group = ProcessGroup(
                self._command,
                self._environment,
                self._limits.grace_seconds,
                self._limits.cpus,
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._errors,
                pass_fds=self._descriptors(),
                bufsize=0,
            )
            assert self._group.process.stdin is not None
            os.set_blocking(self._group.process.stdin.fileno(), False)
            self._rest = b""
        return self._group

    def _ask(
        self, group: ProcessGroup, item: MapItem, output: bytearray
    ) -> tuple[WorkerAnswer | None, str]:
        """Returns a worker's answer, or why there is none. Its output is read while a long item is
        written, so that it and this process never wait for each other."""
        process, limit = group.process, self._limits.timeout_seconds
        until = None if limit is None else time.monotonic() + limit
        unsent = memoryview(request_line(item))
        while True:
            while (end := self._rest.find(b"\n")) >= 0:
                line, self._rest = self._rest[: end + 1], self._rest[end + 1 :]
                answer = answer_of(line)
                if answer is not None and answer.index == item.index:
                    return answer, ""
                keep_end(output, line)
            if len(self._rest) > LONGEST_ANSWER:
                keep_end(output, self._rest)
                self._rest = b""
            ready = self._ready(group, until, bool(unsent))
            if not ready or _is_past(until):  # also one that never stops printing is late
                return None, late_reason(limit or 0.0)
            if unsent and process.stdin in ready:
                try:
                    unsent = unsent[os.write(process.stdin.fileno(), unsent) :]
                except OSError:  # it has closed its input
                    return None, ""
            if process.stdout in ready:
                piece = self._piece(group)
                if not piece:
                    keep_end(output, self._rest)
                    return None, ""
                self._rest += piece

    def _ready(
        self, group: ProcessGroup, until: float | None, sending: bool = False
    ) -> list[IO[bytes]]:
        """Returns which of its pipes can be used or were closed; none if it is late."""
        stdin, stdout = group.process.stdin, group.process.stdout
        assert stdin is not None
        assert stdout is not None
        pipes = {stdout.fileno(): stdout}
        watched = select.poll()
        watched.register(stdout, select.POLLIN)
        if sending:
            watched.register(stdin, select.POLLOUT)
            pipes[stdin.fileno()] = stdin
        while not (found := watched.poll(group.pause_seconds(until) * 1000)):
            group.check()
            if _is_past(until):
                break
        return [pipes[descriptor] for descriptor, _ in found]

    def _piece(self, group: ProcessGroup) -> bytes:
        assert group.process.stdout is not None
        return os.read(group.process.stdout.fileno(), PIECE_BYTES)

    def _drain(self, group: ProcessGroup) -> None:
        """Reads what the worker still writes while it ends, so that it is not blocked."""
        until = time.monotonic() + LEAVE_SECONDS
        while self._ready(group, until) and not _is_past(until):
            if not self._piece(group):
                return

    def _gone(self, group: ProcessGroup) -> int:
        """Ends what is left of the worker; returns its exit code."""
        code = group.close()
        for pipe in (group.process.stdin, group.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._group = None
        return code

    def _new_errors(self) -> bytes:
        if self._errors is None:
            return b""
        size = os.fstat(self._errors.fileno()).st_size
        new = size - self._read_errors
        self._read_errors = size
        return os.pread(
            self._errors.fileno(), min(MOST_OUTPUT_BYTES, new), size - min(MOST_OUTPUT_BYTES, new)
        )


def _is_past(moment: float | None) -> bool:
    return moment is not None and time.monotonic() >= moment


def keep_end(output: bytearray, piece: bytes) -> None:
    """Appends a piece to an output of which only the end is kept, copying it seldom."""
    output += piece
    if len(output) > 2 * MOST_OUTPUT_BYTES:
        del output[:-MOST_OUTPUT_BYTES]
