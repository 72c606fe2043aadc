"""`python -m andon.app.container_job run JSON | follow JSON | clean LEASE`: a job in a container.

The supervisor of a job runs it in the place of the command. It makes the container, writes it into
the job's lease and folder, starts it, passes its output and ends with its exit code. If it is
killed, the supervisor calls it again to remove the container before the lease is released; if the
supervisor was killed, the next one calls it to follow the container that goes on.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from andon.app.executing import open_engine
from andon.core.executing.options_wire import options_from_json
from andon.core.executing.order import ContainerOptions
from andon.engine.jobs.container_files import write_container
from andon.engine.running.contained import ContainedCommand, follow_container
from andon.engine.running.launcher import Launcher
from andon.engine.running.programs import CannotStart
from andon.errors import AndonError, Gone
from andon.leases.book import Book
from andon.leases.hold import name_container_in
from andon.leases.places import LEASES
from andon.model.device import Device

OURS = 125


def run(task: Mapping[str, Any]) -> int:
    """The exit code of the command, or ours where it could not be started."""
    contained = ContainedCommand(
        open_engine(), options_from_json(task["container"]), task["command"]
    )
    devices = [Device(d["uuid"], d["index"], d["vendor"], "", d["pci"]) for d in task["devices"]]
    name = partial(_name, task["lease"], Path(task["attempt"]))
    contained.create(task["lease"], devices, task["environment"], name)
    return _followed(contained)


def follow(task: Mapping[str, Any]) -> int:
    """The same for a container that another process started, from what was last written on."""
    engine = open_engine()
    work = next(iter(engine.find(task["lease"])), None)
    if work is None:
        raise Gone(f"the container of lease {task['lease']} is gone")
    contained = ContainedCommand(engine, ContainerOptions(str(task["image"])), ())
    contained.adopt(work)
    return _followed(contained, contained.follow(task["since"]))


def _followed(contained: ContainedCommand, command: Sequence[str] | None = None) -> int:
    end, _ = follow_container(
        contained,
        lambda client: Launcher(client, os.environ, elsewhere=contained.send).run(
            lambda: None, _say
        ),
        command,
    )
    return end.code


def clean(lease: str) -> int:
    """Kill and remove what is left of a job's containers."""
    engine = open_engine()
    for work in engine.find(lease):
        engine.clean(work)
    return 0


def _name(lease: str, attempt: Path, container: str) -> None:
    path, found, _ = Book(make=False).find(lease, os.getuid())
    name_container_in(path / LEASES / found.name, container)
    write_container(attempt, container)


def _say(text: str) -> None:
    print(f"andon: {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    try:
        if words[0] == "clean":
            return clean(words[1])
        return (follow if words[0] == "follow" else run)(json.loads(words[1]))
    except CannotStart as error:
        _say(error.reason)
        return error.code
    except AndonError as error:
        _say(f"{error.reason}; {error.hint}" if error.hint else error.reason)
        return OURS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
