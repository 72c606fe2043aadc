"""Runs a command in its own process group: signals reach all of it, a second one kills it."""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from subprocess import DEVNULL
from types import FrameType
from typing import Any

from msgspec import Struct

from andon.errors import AndonError
from andon.host.processes.kin import started_ticks
from andon.leases.book.hold import Hold
from andon.model.lease import Work
from andon.work.preparing import NOT_EXECUTABLE, NOT_FOUND, CannotStart
from andon.work.process_group import CHECK_SECONDS, ProcessGroup
from andon.work.tap import Tap

FORWARDED = ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
ENDING = ("SIGINT", "SIGTERM")
TERMINAL_STOPS = (signal.SIGTTIN, signal.SIGTTOU)


Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class CommandEnd(Struct, frozen=True):
    """How a command ended."""

    code: int  # as a shell reports it: 128+n for signal n
    signal: int | None
    seconds: float
    ended_for: str | None = None  # why we stopped it; None where it ended on its own
    interrupted: bool = False  # a person asked it to stop
    tail: str = ""  # the end of its error output


class Launcher:
    """A command to run. `interactive` gives it the terminal at once; `tapped` keeps its stderr."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        grace_seconds: float,
        hold: Hold | None = None,
        interactive: bool = False,
        tapped: bool = False,
        stopped_by: Callable[[], str | None] = lambda: None,
        shell: bool = False,
        cpus: frozenset[int] | None = None,
        output: int | None = None,
        check_seconds: float = CHECK_SECONDS,
        elsewhere: Callable[[int], None] | None = None,
        forwards: bool = True,
        errors: int | None = None,
    ) -> None:
        """`stopped_by` returns who asked this process to end, when SIGTERM arrives; `shell`: the
        command is a person's shell; `cpus` are those that it may run on. With `output`, all of
        its output goes there, it has no input, and nothing that it started outlives it.
        `elsewhere` signals the work if the command is only its client; without `forwards` whoever
        signals us signals the command too. Its error output goes to `errors` if that is given."""
        self._command, self._environment = list(command), dict(environment)
        self._grace_seconds, self._hold, self._interactive = grace_seconds, hold, interactive
        self._stopped_by, self._shell, self._elsewhere = stopped_by, shell, elsewhere
        self._cpus, self._output, self._check_seconds = cpus, output, check_seconds
        self._forwards, self._errors = forwards, output if errors is None else errors
        self._tap = Tap() if tapped else None
        self._group: ProcessGroup | None = None
        self._pending: list[int] = []
        self._end_requests = 0
        self._ended_for: str | None = None
        self._terminal = _terminal()

    def run(self, check: Callable[[], str | None], notify: Callable[[str], None]) -> CommandEnd:
        """Runs the command. `check` may return a reason to stop it; `notify` shows text."""
        self._notify = notify
        before, modes = self._listen(), _modes(self._terminal)
        began, code = time.monotonic(), -1
        try:
            code = self._wait(self._start(), check)
        finally:
            self._take_terminal_back()
            if code < 0 or self._end_requests or self._ended_for:
                _set_modes(self._terminal, modes)
            for number, handler in before.items():
                signal.signal(number, handler)
        seconds = time.monotonic() - began
        tail = self._tap.tail() if self._tap else ""
        shown = 128 - code if code < 0 else code
        return CommandEnd(
            shown,
            -code if code < 0 else None,
            seconds,
            self._ended_for,
            self._end_requests > 0,
            tail,
        )

    def recent(self) -> tuple[str, float]:
        """Returns the last part of its error output so far, and when it was written."""
        return self._tap.recent() if self._tap else ("", 0.0)

    # Starting.

    def _start(self) -> ProcessGroup:
        locks = self._hold.descriptors if self._hold else ()
        try:
            group = self._group = ProcessGroup(
                self._command,
                self._environment,
                self._grace_seconds,
                self._cpus,
                None if self._elsewhere is None else self._signal_elsewhere,
                pass_fds=locks,  # the lock lasts as long as the command, even without us
                stdin=None if self._output is None else DEVNULL,
                stdout=self._output,
                stderr=self._tap.entrance if self._tap else self._errors,
            )
        except OSError as exc:
            missing = isinstance(exc, FileNotFoundError | NotADirectoryError)
            code = NOT_FOUND if missing else NOT_EXECUTABLE
            raise CannotStart(f"{self._command[0]}: {exc.strerror}", code) from exc
        finally:
            if self._tap:
                self._tap.started()
        if self._hold is not None:
            self._hold.add(Work(group.pid, started_ticks(group.pid) or 0, group.pid))
        if self._interactive:
            self._give_terminal()
        for number in self._pending:
            self._send(number)
        self._child(signal.SIGCHLD, None)  # it may have stopped before we knew its pid
        return group

    # Waiting.

    def _wait(self, group: ProcessGroup, check: Callable[[], str | None]) -> int:
        while not group.ends_within(self._check_seconds):
            if self._ended_for is None and (reason := check()) is not None:
                self._ended_for = reason
                self._notify(f"{reason}: stopping the command")
                group.end(self._stopping())
        if self._output is not None:
            group.send(signal.SIGKILL)  # what is left of its group
        return group.reap()

    # Signals.

    def _listen(self) -> dict[int, Handler]:
        handlers = {getattr(signal, name): self._forward for name in FORWARDED}
        handlers |= {getattr(signal, name): self._end for name in ENDING}
        handlers |= {signal.SIGTSTP: self._stop, signal.SIGCHLD: self._child}
        before: dict[int, Handler] = {}
        for number, handler in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                before[number] = signal.signal(number, handler)
        return before

    def _send(self, number: int) -> None:
        """Sends a signal to the whole group; before it exists, keeps the signal for it."""
        if self._group is None:
            self._pending.append(number)
        else:
            self._group.send(number)

    def _signal_elsewhere(self, number: int) -> None:
        assert self._elsewhere is not None
        try:
            self._elsewhere(number)
        except AndonError as error:
            self._notify(f"{signal.Signals(number).name} could not be sent: {error.reason}")

    def _ask_to_end(self, number: int) -> None:
        """Asks the command to end; a stopped one handles the signal once it is resumed."""
        self._send(number)
        self._send(signal.SIGCONT)

    def _stopping(self) -> signal.Signals:
        """Returns the signal that ends the command: an interactive shell ignores SIGTERM."""
        return signal.SIGHUP if self._shell else signal.SIGTERM

    def _forward(self, number: int, frame: FrameType | None) -> None:
        if self._forwards:
            self._send(number)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Handles signals to end: the first is passed on; the second kills the command."""
        self._end_requests += 1
        if self._end_requests == 1:
            sent = self._stopping() if number == signal.SIGTERM else number
            if self._forwards:
                self._ask_to_end(sent)
            if number == signal.SIGINT and self._forwards:
                self._notify("stopping the command; press Ctrl-C again to kill it")
            elif (who := self._stopped_by()) is not None:
                what = "shell" if self._shell else "command"
                self._notify(f"{who}; your {what} was sent {signal.Signals(sent).name}")
        else:
            self._send(signal.SIGKILL)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Handles Ctrl-Z: the command stops, then this process; both resume together."""
        self._send(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._send(signal.SIGCONT)

    def _child(self, number: int, frame: FrameType | None) -> None:
        """Gives the terminal to a command that needs it; stops this process if the command stopped
        while it had the terminal."""
        if self._group is None:
            return
        try:
            found = os.waitid(os.P_PID, self._group.pid, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return
        if found is None or found.si_status == 0:
            return
        has_it = self._has_terminal(self._group.pid)
        if found.si_status in TERMINAL_STOPS and (has_it or self._has_terminal(os.getpgrp())):
            # Where it has it already, it asked for it before we had given it.
            self._give_terminal()
            self._send(signal.SIGCONT)
        elif has_it:
            self._take_terminal_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._give_terminal()
            self._send(signal.SIGCONT)

    # The terminal.

    def _has_terminal(self, group: int) -> bool:
        if self._terminal is None:
            return False
        with suppress(OSError):
            return os.tcgetpgrp(self._terminal) == group
        return False

    def _give_terminal(self) -> None:
        if self._group is not None and self._has_terminal(os.getpgrp()):
            _set_foreground(self._terminal, self._group.pid)

    def _take_terminal_back(self) -> None:
        """Takes the terminal back: a shell may have passed it to a group that has exited."""
        if self._terminal is not None and self._group is not None:
            _set_foreground(self._terminal, os.getpgrp())


def _terminal() -> int | None:
    """Returns our controlling terminal, if we are in its foreground."""
    with suppress(OSError):
        if os.tcgetpgrp(0) == os.getpgrp():
            return 0
    return None


def _modes(terminal: int | None) -> list[Any] | None:
    """Returns the terminal's modes, such as echo and line editing."""
    import termios

    with suppress(termios.error):
        return None if terminal is None else termios.tcgetattr(terminal)
    return None


def _set_modes(terminal: int | None, modes: list[Any] | None) -> None:
    """Restores the modes: a program killed at a prompt leaves a terminal without echo."""
    if terminal is not None and modes is not None:
        import termios

        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)


def _set_foreground(terminal: int | None, group: int) -> None:
    """Gives the terminal to a group. From the background the kernel would stop us for this, so
    the signal is blocked."""
    if terminal is None:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        with suppress(OSError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
