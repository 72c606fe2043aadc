"""Calls a function in a spawned process: once, or many times in the same one.

Never by fork: a child of a process that has used CUDA, or has threads, cannot use CUDA.
"""

import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from subprocess import DEVNULL
from typing import Any, Self

from msgspec import Struct

from andon.errors import AndonError
from andon.host.interpreter import module_environment, process_command
from andon.work.functions.carrying import carried, carry_function, carry_value
from andon.work.functions.child import read_frame, write_frame
from andon.work.output_tail import OutputTail
from andon.work.process_group import ProcessGroup


class CallOutcome(Struct, frozen=True):
    """How a call ended: with a result, an exception, or the end of its process."""

    result: Any = None
    error: str | None = None  # `ValueError: too small`; None where it returned
    exception: bytes | None = None  # the same, carried; opening it may import its package
    traceback: str = ""
    code: int | None = None  # of the process, where it ended during the call
    signal: int | None = None
    seconds: float = 0.0
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.error is None

    def value(self) -> Any:
        """Returns the result; raises the function's exception."""
        if self.error is None:
            return self.result
        raise self.raised()

    def raised(self) -> BaseException:
        """Returns the function's exception, with the traceback of its process as a note."""
        found: BaseException | None = None
        if self.exception is not None:
            with suppress(Exception):  # a class that this process does not have
                found = carried(self.exception)
        found = found or AndonError(self.error or "")
        if self.traceback:
            found.add_note(f"In the process of the function:\n{self.traceback}")
        return found


class FunctionWorker:
    """A process that has the function and is called with one argument after another.

    A process that ended is started again with the next call. Not for several threads at once.
    """

    def __init__(
        self, function: Callable[[Any], Any], environment: Mapping[str, str], grace_seconds: float
    ) -> None:
        """`environment` is added to that of this process."""
        self._function = carry_function(function)
        self._environment, self._grace_seconds = dict(environment), grace_seconds
        self._group: ProcessGroup | None = None
        self._requests = self._answers = -1
        self._output: OutputTail | None = None

    @property
    def pid(self) -> int | None:
        """The worker's pid; None if it is not running."""
        return None if self._group is None else self._group.pid

    def start(self) -> None:
        """Starts the process, which imports the function; `call` does so if necessary.

        Raises the exception of the import.
        """
        if self._group is not None:
            return
        theirs, self._requests = os.pipe()
        self._answers, answer = os.pipe()
        output = self._output = OutputTail()
        try:
            self._group = ProcessGroup(
                process_command("function", str(theirs), str(answer)),
                {**module_environment(), **self._environment},
                self._grace_seconds,
                pass_fds=(theirs, answer),
                stdin=DEVNULL,
                stdout=output.entrance,
                stderr=output.entrance,
            )
        except BaseException:
            for descriptor in (self._requests, self._answers):
                os.close(descriptor)
            raise
        finally:
            output.started()
            for descriptor in (theirs, answer):
                os.close(descriptor)
        setup = {"function": self._function, "path": [p for p in sys.path if p]}
        self._begin(carry_value(setup))

    def _begin(self, setup: bytes) -> None:
        with suppress(BrokenPipeError):
            write_frame(self._requests, setup)
        answer = self._answer(None)
        failed = {"error": "its process ended at the start"} if answer is None else answer["start"]
        if failed is None:
            return
        outcome = outcome_of(failed, 0.0)
        printed = self.output()
        self.close()
        if outcome.exception is not None:
            raise outcome.raised()
        lines = [line for line in printed.splitlines() if line.strip()]
        hint = lines[-1][:200] if lines else ""
        raise AndonError(f"the function could not be loaded: {outcome.error}", hint=hint)

    def call(self, argument: Any, timeout_seconds: float | None = None) -> CallOutcome:
        """Call the function with this argument. A call that takes longer is ended with its
        process: SIGTERM, and SIGKILL after the grace period."""
        content = carry_value(argument)
        self.start()
        began = time.monotonic()
        with suppress(BrokenPipeError):
            write_frame(self._requests, content)
        try:
            answer = self._answer(None if timeout_seconds is None else began + timeout_seconds)
        except TimeoutError:
            code = self.close(gracefully=True)
            taken = time.monotonic() - began
            return _ended(code, taken, timed_out=True)
        seconds = time.monotonic() - began
        if answer is None:  # it ended by itself
            return _ended(self.close(), seconds)
        return outcome_of(answer, seconds)

    def output(self) -> str:
        """Returns the end of what the process has written so far."""
        return "" if self._output is None else self._output.text()

    def mark(self) -> Callable[[], bytes]:
        """Returns a function that returns the end of what is written from now on."""
        before, written = self._output, 0 if self._output is None else self._output.written

        def since() -> bytes:
            now = self._output
            return b"" if now is None else now.since(written if now is before else 0)

        return since

    def end(self, number: int) -> None:
        """Sends this signal to the process, from any thread. The next call notices its end."""
        if (group := self._group) is not None:
            group.end(number)

    def close(self, gracefully: bool = False) -> int:
        """Ends the process and its group; returns its exit code as Popen does. `gracefully` is
        needed only during a call."""
        if self._group is None:
            return 0
        code = self._group.close(gracefully)
        self._group = None
        for descriptor in (self._requests, self._answers):
            os.close(descriptor)
        if self._output is not None:
            self._output.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, until: float | None) -> dict[str, Any] | None:
        """Returns the next answer; None if the process ended without one."""
        watched = select.poll()
        watched.register(self._answers, select.POLLIN)
        group = self._group
        assert group is not None
        while not watched.poll(group.pause_seconds(until) * 1000):
            group.check()
            if until is not None and time.monotonic() >= until:
                raise TimeoutError
        frame = read_frame(self._answers)
        return None if frame is None else carried(frame)


def outcome_of(answer: Mapping[str, Any], seconds: float) -> CallOutcome:
    if "result" in answer:
        try:
            return CallOutcome(result=carried(answer["result"]), seconds=seconds)
        except Exception as exc:  # noqa: BLE001 - whatever its class raises here
            error = f"its result cannot be read here: {type(exc).__name__}: {exc}"
            return CallOutcome(error=error, seconds=seconds)
    printed = str(answer.get("traceback", ""))
    return CallOutcome(
        None, str(answer["error"]), answer.get("exception"), printed, seconds=seconds
    )


def _ended(code: int, seconds: float, timed_out: bool = False) -> CallOutcome:
    number = -code if code < 0 else None
    what = f"was ended by signal {number}" if number else f"ended with code {code}"
    error = f"did not end within {seconds:.0f} s" if timed_out else f"its process {what}"
    return CallOutcome(error=error, code=code, signal=number, seconds=seconds, timed_out=timed_out)
