"""Runs: where their records lie, the index that finds them, and how one becomes known to it."""

import os
import subprocess
import threading
from pathlib import Path

from andon.host.interpreter import module_command, module_environment
from andon.host.server.state_folder import state_folder

RUNS = "runs"  # the folder of records


def runs_folder() -> Path:
    """Where records lie unless a run was told otherwise; not created."""
    return state_folder() / RUNS


def remember(path: Path) -> None:
    """Make a record findable, as soon as its file exists; returns at once and cannot fail.

    Records of the state folder are found there by whoever looks. Of another folder the index is
    told, by a process of its own: neither a hung folder nor a hung index may keep the run.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would ask the file system
    if path.parent == runs_folder():
        return
    try:
        added = subprocess.Popen(
            module_command("andon", "runs", "add", "--quiet", str(path)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=module_environment(),
            start_new_session=True,
        )
    except OSError:
        return  # `andon runs add` finds it later
    threading.Thread(target=added.wait, name="andon runs add", daemon=True).start()
