"""`python -m andon.app.container_job run JSON | clean LEASE`: a job's command in a container.

The supervisor of a job runs it in the place of the command. It makes the container, writes it into
the job's lease, starts it, passes its output and ends with its exit code. If it is killed, the
supervisor calls it again to remove the container before the lease is released.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from andon.app.executing import open_engine
from andon.core.executing.options_wire import options_from_json
from andon.engine.running.contained import ContainedCommand, follow_container
from andon.engine.running.launcher import Launcher
from andon.engine.running.programs import CannotStart
from andon.errors import AndonError
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
    name = partial(_name, task["lease"])
    contained.create(task["lease"], devices, task["environment"], name)
    end, _ = follow_container(
        contained,
        lambda client: Launcher(client, os.environ, elsewhere=contained.send).run(
            lambda: None, _say
        ),
    )
    return end.code


def clean(lease: str) -> int:
    """Kill and remove what is left of a job's containers."""
    engine = open_engine()
    for work in engine.find(lease):
        engine.clean(work)
    return 0


def _name(lease: str, container: str) -> None:
    path, found, _ = Book(make=False).find(lease, os.getuid())
    name_container_in(path / LEASES / found.name, container)


def _say(text: str) -> None:
    print(f"andon: {text}", file=sys.stderr, flush=True)


def main(words: Sequence[str]) -> int:
    try:
        return clean(words[1]) if words[0] == "clean" else run(json.loads(words[1]))
    except CannotStart as error:
        _say(error.reason)
        return error.code
    except AndonError as error:
        _say(f"{error.reason}; {error.hint}" if error.hint else error.reason)
        return OURS


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
