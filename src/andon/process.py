"""`python -m andon.process NAME ARGUMENTS`: the processes that andon starts, by names that stay.

A dispatcher, a server or a holder may run for weeks, and starts others by their names: they must be
found after an upgrade, wherever their code is by then. So a name here is never changed.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location

PROCESSES = {
    "call": "andon.work.functions.call",
    "container": "andon.app.container_work",
    "dispatcher": "andon.app.dispatcher",
    "function": "andon.work.functions.child",
    "gpu-load": "andon.cli.commands.setup.selftest_load",
    "holder": "andon.leases.book.holder",
    "load-client": "andon.work.load.process",
    "map-worker": "andon.work.map.block_worker",
    "reader": "andon.drivers.reader",
    "run-indexer": "andon.app.run_indexing",
    "server-trial": "andon.api.server_trial",
    "slurm-node": "andon.app.slurm_node",
    "user-reader": "andon.web.users.reader",
}
"""The module of each process; its `main` gets the arguments."""

# Until November 2026 processes were started by their modules, under `andon`. Supervisors of that
# time start a dispatcher when their job ends. To be removed from November 2027 on, when no such
# process is running any more, with `_find_old_module` of `andon` and the scripts that
# `tests/integration/test_upgrade.py` names.
OLD_MODULES = {
    ("app", "container_job"): "container",
    ("app", "dispatching"): "dispatcher",
    ("app", "remembering"): "run-indexer",
    ("app", "user_reader"): "user-reader",
    ("cli", "commands", "setup", "selftest_load"): "gpu-load",
    ("engine", "functions", "child"): "function",
    ("leases", "holder"): "holder",
    ("reader",): "reader",
}


def old_module_spec(module: str) -> ModuleSpec | None:
    """Finds the code of a process by its former module, or a package that such a module was in."""
    parts = tuple(module.split(".")[1:])
    if parts in OLD_MODULES:
        now = find_spec(PROCESSES[OLD_MODULES[parts]])
        assert now is not None
        assert now.origin is not None
        return spec_from_file_location(module, now.origin)
    if any(old[: len(parts)] == parts for old in OLD_MODULES):
        return ModuleSpec(module, None, is_package=True)
    return None


def take_path() -> None:
    """Imports from where our starter does and in its order, but the standard library first, so that
    no file of a program hides a module of Python. The environment becomes the user's again."""
    given = os.environ.pop("ANDON_PYTHONPATH", "").split(os.pathsep)  # andon's folder is first
    if given == [""]:
        return  # started by hand, or by an older version
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
