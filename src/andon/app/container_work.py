"""The process `container run JSON CMD… | follow JSON | clean LEASE`: a command in a container.

The supervisor of a job and the workers of a map run it in place of the command. It creates the
container, writes its id into the lease and the job's folder, starts it, passes on its output and
exits with its exit code. If it is killed, the process that started it removes the container before
the lease is released; if the supervisor of a job was killed, the next one calls it to follow the
container that is still running.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from andon.app.engines import open_engine
from andon.app.settings import load_settings
from andon.errors import AndonError, Gone
from andon.host.processes.kin import container_lives
from andon.jobs.container_files import write_container
from andon.leases.book.hold import name_container_in
from andon.leases.book.lease_book import Book
from andon.leases.book.places import LEASES
from andon.model.device import Device
from andon.model.execution import OUT_OF_HOST_MEMORY, UNLEASED, ContainerOptions
from andon.work.containers.notes import noted
from andon.work.containers.rules.options import options_from_json
from andon.work.containers.running import ContainedCommand, run_container
from andon.work.preparing import CannotStart

OURS = 125


class DeferredSignals:
    """Holds back signals to end: ending between two engine calls would leave a container behind."""

    def __init__(self) -> None:
        self._received: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, frame: self._received.append(received))

    @property
    def code(self) -> int | None:
        """Returns the exit code if a signal came."""
        return 128 + self._received[0] if self._received else None

    def reason(self) -> str | None:
        """Returns the reason if a signal came while the container was being started."""
        return "asked to end" if self._received else None


def run(task: Mapping[str, Any], command: Sequence[str]) -> int:
    """Runs the command; returns its exit code, or ours if it could not be started."""
    signals = DeferredSignals()
    contained = ContainedCommand(
        open_engine(task["engine"]),
        options_from_json(task["container"]),
        command,
        stdin=task["stdin"],
        sweeps=task["sweep"],
    )
    devices = [Device(d["uuid"], d["index"], d["vendor"], "", d["pci"]) for d in task["devices"]]
    name = partial(_name, task["lease"], task["attempt"])
    contained.create(task["lease"], devices, task["environment"], name)
    if signals.code is not None:
        contained.clean()
        return signals.code
    return _followed(contained, signals)


def follow(task: Mapping[str, Any]) -> int:
    """Follows a container that another process started, from the output it last passed on."""
    signals = DeferredSignals()
    engine = open_engine()
    work = next(iter(engine.find(task["lease"])), None)
    if work is None:
        raise Gone(f"the container of lease {task['lease']} is gone")
    contained = ContainedCommand(engine, ContainerOptions(str(task["image"])), ())
    contained.adopt(work)
    return _followed(contained, signals, contained.follow(task["since"]))


def _followed(
    contained: ContainedCommand, signals: DeferredSignals, command: Sequence[str] | None = None
) -> int:
    grace = load_settings({}).settings.work_grace_seconds
    end, killed = run_container(contained, grace, signals.reason, _print, command)
    if killed:
        _print(OUT_OF_HOST_MEMORY)
    return end.code


def clean(lease: str) -> int:
    """Kills and removes what is left of a job's containers; one that cannot be removed but has
    no living process is left to a later sweep."""
    engine = open_engine()
    try:
        for work in engine.find(lease):
            engine.clean(work)
    except AndonError as error:
        _print(error.reason)
        return OURS if container_lives(w.id for w in noted(engine.name) if w.label == lease) else 0
    return 0


def _name(lease: str, attempt: str | None, container: str) -> None:
    if lease.startswith(UNLEASED):
        return
    path, found, _ = Book(make=False).find(lease, os.getuid())
    name_container_in(path / LEASES / found.name, container)
    if attempt is not None:
        write_container(Path(attempt), container)


def _print(text: str) -> None:
    print(f"andon: {text}", file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    try:
        if argv[0] == "clean":
            return clean(argv[1])
        if argv[0] == "follow":
            return follow(json.loads(argv[1]))
        return run(json.loads(argv[1]), argv[2:])
    except CannotStart as error:
        _print(error.reason)
        return error.code
    except AndonError as error:
        _print(f"{error.reason}; {error.hint}" if error.hint else error.reason)
        return OURS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
