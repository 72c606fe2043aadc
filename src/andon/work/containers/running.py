"""A command in a container: created for a lease, named in it, started, followed and removed."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Conflict
from andon.host.processes.kin import container_lives
from andon.leases.book.lease_book import Book
from andon.model.device import Device
from andon.model.execution import (
    ContainerOptions,
    CreatedWork,
    Submitter,
    WorkOrder,
)
from andon.ports import ContainerEngine
from andon.work.containers.rules.arguments import WITH_FILES
from andon.work.launcher import CommandEnd, Launcher

MEMORY = Path("/proc/meminfo")
RENDER_NODES = Path("/dev/dri/by-path")
LAST_SIGNAL = 64
AGAIN_SECONDS = 0.5  # before its output is followed again


class ContainedCommand:
    """One command in one image; `create` may be called once per attempt."""

    def __init__(
        self,
        engine: ContainerEngine,
        options: ContainerOptions,
        command: Sequence[str],
        stdin: bool = False,
        terminal: bool = False,
        sweeps: bool = True,
    ) -> None:
        """With `sweeps`, what killed supervisors left behind is removed at the end, too."""
        self.engine, self.options, self._sweeps = engine, options, sweeps
        self._order = WorkOrder(
            tuple(command),
            str(Path.cwd()),
            "",
            submitter=Submitter(os.getuid(), os.getgid(), _groups()),
            container=options,
            stdin=stdin,
            terminal=terminal,
            shm_bytes=half_of_memory(),
        )
        self._work: CreatedWork | None = None
        self._made = ""  # the id of the last container

    def check(self) -> None:
        """Raises an error if something is missing, before a claim: engine, image, folder."""
        self.engine.check(self._order)

    def create(
        self,
        label: str,
        devices: Sequence[Device],
        environment: Mapping[str, str],
        name: Callable[[str], None],
    ) -> None:
        """Creates the container and writes its id into the lease; nothing runs yet. A failure
        leaves nothing behind."""
        order = replace(
            self._order,
            label=label,
            devices=tuple(devices),
            device_files=render_nodes(devices),
            environment=dict(environment),
        )
        self.engine.check(order)
        self._work = self.engine.create(order)
        self._made = self._work.id
        try:
            name(self._work.id)
        except BaseException:
            self.clean()
            raise

    def adopt(self, work: CreatedWork) -> None:
        """Continues with a container that another process started."""
        self._work = work

    def client(self) -> Sequence[str]:
        """Starts the container if that needs no terminal; returns its client's command."""
        return self.engine.client(self._created())

    def follow(self, since: float | None = None) -> Sequence[str]:
        """Returns a command that prints its output since this time, or from now on."""
        return self.engine.follow(self._created(), time.time() if since is None else since)

    def send(self, number: int) -> None:
        self.engine.send(self._created(), number)

    def is_running(self) -> bool:
        """Whether the container is still running although its client has ended."""
        return self.engine.ended(self._created()) is None

    def finished(self, client: CommandEnd) -> tuple[CommandEnd, bool]:
        """How the command ended, according to the engine, and whether host memory ran out."""
        end = self.engine.ended(self._created())
        if end is None:
            raise Conflict("the container is still running")
        if end.error:
            raise self.engine.not_started(self._created(), end.error)
        if end.code is None:
            return client, end.host_out_of_memory
        number = end.code - 128 if 128 < end.code <= 128 + LAST_SIGNAL else None
        return replace(client, code=end.code, signal=number), end.host_out_of_memory

    def clean(self) -> None:
        """Kills and removes the container, and those of supervisors that were killed."""
        if self._work is not None:
            work, self._work = self._work, None
            self.engine.clean(work)
        if self._sweeps:
            sweep(self.engine)

    def lives(self) -> bool:
        """Whether a process of the container is still alive after its removal."""
        return bool(self._made) and container_lives([self._made])

    def _created(self) -> CreatedWork:
        if self._work is None:
            raise Conflict("the container has not been created")
        return self._work


def follow_container(
    contained: ContainedCommand,
    launch: Callable[[Sequence[str]], CommandEnd],
    command: Sequence[str] | None = None,
) -> tuple[CommandEnd, bool]:
    """Starts the container, or follows it with `command`; passes on its output until it ends,
    and removes it.

    Returns how it ended, and whether the kernel killed it for lack of host memory. One that has
    ended and cannot be removed is left to a later sweep.
    """
    try:
        end = launch(command or contained.client())
        while contained.is_running():  # its client was killed, or the engine restarted
            time.sleep(AGAIN_SECONDS)
            more = launch(contained.follow())
            end = replace(more, tail=end.tail + more.tail)
        finished = contained.finished(end)
    except BaseException:
        contained.clean()
        raise
    with suppress(AndonError):
        contained.clean()
    return finished


def run_container(
    contained: ContainedCommand,
    grace_seconds: float,
    check: Callable[[], str | None],
    notify: Callable[[str], None],
    command: Sequence[str] | None = None,
) -> tuple[CommandEnd, bool]:
    """Runs a container with a client of this process."""

    def launch(client: Sequence[str]) -> CommandEnd:
        launcher = Launcher(client, os.environ, grace_seconds, elsewhere=contained.send)
        return launcher.run(check, notify)

    return follow_container(contained, launch, command)


def sweep(engine: ContainerEngine) -> None:
    """Removes what killed supervisors left behind: no lease names it."""
    with suppress(AndonError):
        entries = Book(make=False).entries()
        living = frozenset(entry.lease.id for entry in entries if entry.lease is not None)
        for left in engine.leftovers(living):
            engine.clean(left)


def half_of_memory() -> int | None:
    """Returns half of this machine's memory, for /dev/shm, where data loaders share tensors: the
    engines' own 64 MiB is too little."""
    with suppress(OSError, ValueError, IndexError):
        for line in MEMORY.read_text("ascii").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024 // 2
    return None


def render_nodes(devices: Sequence[Device]) -> dict[str, str]:
    """Returns the files of AMD and Intel devices, by uuid."""
    found: dict[str, str] = {}
    for device in devices:
        if device.vendor in WITH_FILES and device.pci is not None:
            link = RENDER_NODES / f"pci-{device.pci.lower()}-render"
            if link.exists():
                found[device.uuid] = str(link.resolve())
    return found


def _groups() -> tuple[int, ...]:
    """Returns the submitter's other groups: shared folders often belong to one."""
    return tuple(sorted(set(os.getgroups()) - {os.getgid()})) if os.getuid() else ()
