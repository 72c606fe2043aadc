"""Executes a command as a process of this machine; its processes carry its label."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from andon.errors import Denied, Gone, Invalid
from andon.host.files import read
from andon.host.interpreter import code_command
from andon.host.processes.handles import ProcessHandle
from andon.host.processes.procfs import parents
from andon.model.execution import CreatedWork, WorkEnd, WorkOrder

LABEL_VARIABLE = "ANDON_WORK"  # in the environment of its processes
_ENVIRONMENT_BYTES = 1 << 18
ENDING_SECONDS = 10.0
_WAIT = """
import os, select, sys
try:
    waiting = select.poll()
    for pid in sys.argv[1:]:
        waiting.register(os.pidfd_open(int(pid)), select.POLLIN)
        waiting.poll()
except ProcessLookupError:
    pass
"""


class LocalExecutor:
    """Runs commands as local processes: the client is the command itself."""

    name = "local"

    def __init__(self) -> None:
        self._orders: dict[str, WorkOrder] = {}

    def check(self, order: WorkOrder) -> None:
        if not order.command:
            raise Invalid("there is no command to run")

    def create(self, order: WorkOrder) -> CreatedWork:
        self.check(order)
        self._orders[order.label] = order
        return CreatedWork(order.label, order.label, order.command[0])

    def client(self, work: CreatedWork) -> Sequence[str]:
        """The command with its label in the environment; `env` replaces itself by the command."""
        order = self._orders.get(work.id)
        if order is None:
            raise Gone(f"{work.label} was not created by this process")
        added = {**order.environment, LABEL_VARIABLE: work.label}
        variables = [f"{name}={value}" for name, value in added.items()]
        return ["env", f"--chdir={order.folder}", *variables, *order.command]

    def follow(self, work: CreatedWork, since: float) -> Sequence[str]:
        """A command that waits for the end of the first process; its output went elsewhere."""
        pids = [str(pid) for pid in _labelled(work.label)]
        return code_command(_WAIT, *pids[:1])

    def find(self, label: str) -> Sequence[CreatedWork]:
        return [CreatedWork(label, label)] if any(True for _ in _labelled(label)) else []

    def send(self, work: CreatedWork, number: int) -> None:
        for pid in list(_labelled(work.label)):
            with suppress(Gone, Denied), ProcessHandle.open(pid) as handle:
                handle.send(number)

    def ended(self, work: CreatedWork) -> WorkEnd | None:
        """Returns the end; the exit code is known only to the process that started it."""
        return None if self.find(work.label) else WorkEnd(None)

    def clean(self, work: CreatedWork) -> None:
        for pid in list(_labelled(work.label)):
            with suppress(Gone, Denied), ProcessHandle.open(pid) as handle:
                handle.send(signal.SIGKILL)
                handle.ended(ENDING_SECONDS)
        self._orders.pop(work.id, None)


def _labelled(label: str) -> Iterator[int]:
    """Yields this user's processes with the label, those without a labelled parent first."""
    family = parents()
    found = {pid for pid in family if _label_of(pid) == label and pid != os.getpid()}
    yield from sorted(found, key=lambda pid: (_depth(pid, family, found), pid))


def _depth(pid: int, family: Mapping[int, int], found: set[int]) -> int:
    depth = 0
    while (pid := family.get(pid, 0)) in found:
        depth += 1
    return depth


def _label_of(pid: int) -> str | None:
    content = read(f"/proc/{pid}/environ", _ENVIRONMENT_BYTES) or b""
    start = f"{LABEL_VARIABLE}=".encode()
    found = next((one for one in content.split(b"\0") if one.startswith(start)), None)
    return None if found is None else os.fsdecode(found[len(start) :])
