"""`python -m andon.app.container_job run JSON CMD… | clean LEASE`: a command in a container.

The supervisor of a job and the workers of a map run it in the place of the command. It makes the
container, writes it into the lease, starts it, passes its output and ends with its exit code. If it
is killed, whoever started it removes the container before the lease is released.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from andon.app.executing import open_engine
from andon.core.executing.options_wire import options_from_json
from andon.core.executing.order import HOST_MEMORY_WORDS, UNLEASED
from andon.engine.running.contained import ContainedCommand, follow_container
from andon.engine.running.launcher import Launcher
from andon.engine.running.programs import CannotStart
from andon.errors import AndonError
from andon.leases.book import Book
from andon.leases.hold import name_container_in
from andon.leases.places import LEASES
from andon.model.device import Device

OURS = 125


class SignalsKept:
    """Signals that ask this process to end: none may end it between two steps with an engine, or a
    container would be left behind."""

    def __init__(self) -> None:
        self._received: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, frame: self._received.append(received))

    @property
    def code(self) -> int | None:
        """The exit code if one came."""
        return 128 + self._received[0] if self._received else None

    def reason(self) -> str | None:
        """For one that came while the container was being started."""
        return "asked to end" if self._received else None


def run(task: Mapping[str, Any], command: Sequence[str]) -> int:
    """The exit code of the command, or ours where it could not be started."""
    kept = SignalsKept()
    contained = ContainedCommand(
        open_engine(task["engine"]),
        options_from_json(task["container"]),
        command,
        stdin=task["stdin"],
        sweeps=task["sweep"],
    )
    devices = [Device(d["uuid"], d["index"], d["vendor"], "", d["pci"]) for d in task["devices"]]
    name = partial(_name, task["lease"])
    contained.create(task["lease"], devices, task["environment"], name)
    if kept.code is not None:
        contained.clean()
        return kept.code
    end, killed = follow_container(
        contained,
        lambda client: Launcher(client, os.environ, elsewhere=contained.send).run(
            kept.reason, _say
        ),
    )
    if killed:
        _say(HOST_MEMORY_WORDS)
    return end.code


def clean(lease: str) -> int:
    """Kill and remove what is left of a job's containers."""
    engine = open_engine()
    for work in engine.find(lease):
        engine.clean(work)
    return 0


def _name(lease: str, container: str) -> None:
    if lease.startswith(UNLEASED):
        return
    path, found, _ = Book(make=False).find(lease, os.getuid())
    name_container_in(path / LEASES / found.name, container)


def _say(text: str) -> None:
    print(f"andon: {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    try:
        return clean(words[1]) if words[0] == "clean" else run(json.loads(words[1]), words[2:])
    except CannotStart as error:
        _say(error.reason)
        return error.code
    except AndonError as error:
        _say(f"{error.reason}; {error.hint}" if error.hint else error.reason)
        return OURS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
