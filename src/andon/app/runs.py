"""Runs: where their records lie, the index that finds them, and how one becomes known to it."""

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from andon.host.interpreter import module_command, module_environment
from andon.host.server.state_folder import state_folder

if TYPE_CHECKING:  # whoever makes a run needs none of it
    from andon.core.runs.retention import RunsKept
    from andon.core.settings.resolution import Settings
    from andon.ports import RunIndex
    from andon.stores.run_finder import RunFinder

RUNS = "runs"  # the folder of records
INDEX = "runs.db"


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


def open_run_index() -> "RunIndex":
    """The index of this machine, in its state folder."""
    from andon.host.server.node_folder import open_node_folder
    from andon.stores.sqlite_runs import SqliteRunIndex

    return SqliteRunIndex(open_node_folder() / INDEX)


def open_run_finder() -> "RunFinder":
    """Finds runs by the index and in the folder of records; `close` its index afterwards."""
    from andon.stores.run_finder import RunFinder

    return RunFinder(open_run_index(), runs_folder())


def runs_kept(settings: "Settings") -> "RunsKept":
    """How long records of the state folder are kept, and how much space they may take."""
    from andon.core.runs.retention import DAY_SECONDS, RunsKept

    return RunsKept(settings.runs_keep_days * DAY_SECONDS, settings.runs_megabytes * 1_000_000)
