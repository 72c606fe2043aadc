"""The dialog that ends a process: the question, the answer and the result.

The process is pinned by a pidfd while the dialog is open (`kill/ending.py`), so that the one shown
is the one signalled. It is opened in a thread: reading the command line of a process that hangs may
block.
"""

import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from andon.cli.show.render import paragraph
from andon.cli.show.text import Text, styled
from andon.errors import AndonError
from andon.kill.rules import plan
from andon.model.device import Process, Snapshot
from andon.tui.page import Frame

if TYPE_CHECKING:
    from andon.kill.ending import Ending

SLOW_SECONDS = 2.0


class EndPhase(StrEnum):
    """The phase of the dialog."""

    OPENING = "opening"
    ASKING = "asking"
    REFUSED = "refused"
    WAITING = "waiting"  # signalled with SIGTERM
    OFFERING = "offering"  # it still runs: SIGKILL is offered
    KILLING = "killing"
    INSTEAD = "instead"  # its job is being cancelled, or its lease released


class EndDialog:
    """One process, from the question to its end. `close` is called with the message to show."""

    def __init__(
        self,
        process: Process,
        snapshot: Snapshot,
        close: Callable[[str], None],
        changed: Callable[[], None],
        grace_seconds: float,
    ) -> None:
        self.process, self.phase = process, EndPhase.OPENING
        self._grace = grace_seconds
        self._close, self._changed = close, changed
        self._ending: Ending | None = None
        self._refused: tuple[AndonError, ...] = ()
        self._began = time.monotonic()
        self._closed = False
        self._result: str | None = None  # what became of the job or lease
        threading.Thread(target=self._open, args=(snapshot,), name="ending", daemon=True).start()

    def _open(self, snapshot: Snapshot) -> None:
        from andon.kill.ending import Ending

        pid = self.process.pid
        try:
            found = Ending((pid,), snapshot, started={pid: self.process.started})
        except (AndonError, OSError) as error:
            failed = error if isinstance(error, AndonError) else AndonError(str(error))
            self._refused, self.phase = (failed,), EndPhase.REFUSED
        else:
            self._ending, self._refused = found, found.refused
            self.phase = EndPhase.ASKING if found.targets else EndPhase.REFUSED
            if self._closed:
                found.close()
        self._changed()

    # What is shown.

    def lines(self, width: int) -> tuple[Text, ...]:
        """Returns the lines that cover the bottom of the screen."""
        found = [styled(f" end process {self.process.pid}".ljust(width), "bold reverse")]
        found += self._body(width)
        found.append(styled(self._keys().ljust(width), "reverse"))
        return tuple(found)

    def _body(self, width: int) -> list[Text]:
        if self.phase is EndPhase.OPENING:
            slow = time.monotonic() - self._began > SLOW_SECONDS
            more = ": the process does not answer" if slow else ""
            return [styled(f"checking the process…{more}", "dim")]
        if self.phase is EndPhase.REFUSED:
            return [line for error in self._refused for line in _refusal(error, width)]
        assert self._ending is not None
        lines: list[Text] = []
        for target in self._ending.targets:
            lines += paragraph(plan.line_of(target), width, "bold", indent=2)
            if below := plan.children_text(target):
                lines += paragraph(below.partition("; --tree")[0].strip(), width, "dim", indent=2)
            if (other := plan.instead(target)) is not None:
                lines += paragraph(f"{other[0]}; to end all of it: {other[1]}", width, "yellow")
        return [*lines, *paragraph(self._question(), width, indent=2)]

    def _question(self) -> str:
        assert self._ending is not None
        if self.phase is EndPhase.ASKING:
            return plan.question(self._ending.targets, signal.SIGTERM)
        if self.phase is EndPhase.OFFERING:
            return plan.kill_question(self._ending.targets, self._grace)
        if self.phase is EndPhase.INSTEAD:
            return "asking it to end…"
        name = "SIGKILL" if self.phase is EndPhase.KILLING else "SIGTERM"
        return f"{name} sent; waiting for it to end…"

    def _keys(self) -> str:
        if self.phase in (EndPhase.ASKING, EndPhase.OFFERING):
            whole = self._whole()
            instead = "" if whole is None else f"  {whole.key} {whole} instead"
            return f" y yes{instead}  any other key: no"
        return " Esc closes"

    def _whole(self) -> plan.LargerTarget | None:
        """Returns the job or lease that may be ended instead, until something is signalled."""
        asking = self._ending is not None and self.phase is EndPhase.ASKING
        return plan.offered(self._ending.targets) if asking and self._ending else None

    # What is done.

    def press(self, key: str) -> None:
        if self.phase is EndPhase.ASKING and key in ("y", "Y"):
            self._send(signal.SIGTERM, EndPhase.WAITING)
        elif (whole := self._whole()) is not None and key == whole.key:
            self.phase = EndPhase.INSTEAD
            threading.Thread(target=self._end_whole, args=(whole,), daemon=True).start()
        elif self.phase is EndPhase.OFFERING and key in ("y", "Y"):
            self._send(signal.SIGKILL, EndPhase.KILLING)
        elif self.phase in (EndPhase.ASKING, EndPhase.OFFERING):
            message = "nothing was ended" if self.phase is EndPhase.ASKING else self._left(15)
            self.end(message)
        elif key in ("escape", "q", "enter", "ctrl+c"):
            self.end("")

    def _left(self, number: int) -> str:
        assert self._ending is not None
        return plan.not_ended(self._ending.targets, signal.Signals(number)).reason

    def _send(self, number: signal.Signals, phase: EndPhase) -> None:
        assert self._ending is not None
        failed = self._ending.send(number)
        if failed:
            self._refused, self.phase = failed, EndPhase.REFUSED
        else:
            self.phase, self._began = phase, time.monotonic()

    def _end_whole(self, whole: plan.LargerTarget) -> None:
        """Ends the job or lease in a thread: a queue of many jobs takes a moment to read."""
        from andon.kill.ending import end_whole

        try:
            self._result = end_whole(whole)
        except (AndonError, OSError) as error:
            failed = error if isinstance(error, AndonError) else AndonError(str(error))
            self._refused, self.phase = (failed,), EndPhase.REFUSED

    def poll(self) -> None:
        """Checks whether the process has ended; polls and never blocks."""
        if self._result is not None:
            self.end(self._result)
            return
        if self._ending is None or self.phase not in (EndPhase.WAITING, EndPhase.KILLING):
            return
        number = signal.SIGKILL if self.phase is EndPhase.KILLING else signal.SIGTERM
        if not self._ending.still_running(0.0):
            self.end(plan.done(self._ending.targets, number))
        elif time.monotonic() - self._began >= self._grace:
            if self.phase is EndPhase.WAITING:
                self.phase = EndPhase.OFFERING
            else:
                self.end(self._left(number))

    def end(self, message: str) -> None:
        """Releases the process and closes the dialog with a message about the result."""
        self._closed = True
        if self._ending is not None:
            self._ending.close()
        self._close(message)


def _refusal(error: AndonError, width: int) -> list[Text]:
    lines = paragraph(error.reason, width, "bold yellow")
    return lines + (paragraph(error.hint, width) if error.hint else [])


def process_to_end(frame: Frame) -> tuple[Process, Snapshot] | str:
    """Returns the process under the cursor, or why it cannot be ended from here."""
    snapshot, key = frame.scene.snapshot, frame.state.process
    if snapshot is None or key is None:
        return "choose a process first: Tab goes to the processes"
    for status in snapshot.devices:
        for process in status.processes:
            if (process.pid, process.started) != key[:2]:
                continue
            if status.device.vendor == "sim" or "replay" in snapshot.versions:
                return "simulated and recorded processes cannot be ended"
            if process.name is None:
                return f"pid {process.pid} is not visible here: it belongs to another container"
            return process, snapshot
    ancestor = frame.scene.ancestors.get(key[0])
    return "that process has ended" if ancestor is None else (ancestor, snapshot)
