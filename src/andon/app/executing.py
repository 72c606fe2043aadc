"""Which executor a command gets: this machine's container engine, by what is installed."""

import shutil

from andon.errors import Unavailable
from andon.ports import Executor
from andon.registry import EXECUTORS, load

ENGINES = ("docker", "podman")


def open_engine() -> Executor:
    """Docker where it is installed, else Podman."""
    found = next((name for name in ENGINES if shutil.which(name) is not None), None)
    if found is None:
        raise Unavailable(
            "there is no container engine here: neither docker nor podman is installed",
            hint="install one, or run the command without --image",
        )
    engine: Executor = load(EXECUTORS, found)()
    return engine
