"""A command that was started before andon was imported."""

import os

from msgspec import Struct


class StartedProcess(Struct):
    """A child that was started before andon was imported, as the leader of a group; with what
    `ProcessGroup` needs of Popen."""

    pid: int
    at: float  # when it was started
    run: str  # the run and the record that its variables name
    record: str
    asked: bool = False  # it was sent a signal to end
    returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode
