"""`python -m andon.process NAME ARGUMENTS`: the processes that andon starts, by names that stay.

A dispatcher, a server or a holder may run for weeks, and starts others by their names: they must be
found after an upgrade, wherever their code is by then. So a name here is never changed.
"""

import os
import sys
from importlib import import_module

PROCESSES = {
    "call": "andon.work.functions.call",
    "container": "andon.app.container_work",
    "dispatcher": "andon.app.dispatcher",
    "function": "andon.work.functions.child",
    "gpu-check": "andon.checks.child",
    "holder": "andon.leases.book.holder",
    "load-client": "andon.work.load.process",
    "map-worker": "andon.work.map.block_worker",
    "reader": "andon.drivers.reader",
    "run-indexer": "andon.app.run_indexing",
    "server-trial": "andon.api.server_trial",
    "slurm-node": "andon.app.slurm_node",
    "user-reader": "andon.app.user_reader",
}
"""The module of each process; its `main` gets the arguments."""


def take_path() -> None:
    """Sets the import path of the process that started this one, but with the standard library
    first, so that no file of a program hides a module of Python. Restores the user's
    environment."""
    given = os.environ.pop("ANDON_PYTHONPATH", "").split(os.pathsep)  # andon's folder is first
    if given == [""]:
        return  # started by hand
    before, _, last = os.environ.get("PYTHONPATH", "").rpartition(os.pathsep)
    if last == given[0]:
        del os.environ["PYTHONPATH"]
        os.environ.update({"PYTHONPATH": before} if before else {})
    own = (one for one in sys.path if one not in given and os.path.isabs(one))  # noqa: PTH117
    sys.path[:] = dict.fromkeys((*own, *given))


def main() -> None:
    take_path()
    sys.exit(import_module(PROCESSES[sys.argv[1]]).main(sys.argv[2:]))


if __name__ == "__main__":
    main()
