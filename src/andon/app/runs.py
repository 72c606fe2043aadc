"""Runs: where their records are, the index that finds them, and how a record is added to it."""

import os
import subprocess
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from andon.host.interpreter import module_environment, process_command
from andon.host.state.user_folder import runs_folder as runs_folder

if TYPE_CHECKING:  # whoever makes a run needs none of it
    from collections.abc import Callable, Mapping

    from andon.model.job.progress import WorkProgress
    from andon.ports import RunIndex
    from andon.runs.index import RunFinder
    from andon.runs.rules.retention import RetentionPolicy
    from andon.settings.resolution import Settings

INDEX = "runs.db"


def remember(path: Path) -> None:
    """Makes a record findable; called once, when its run has begun. Returns at once and cannot
    fail.

    Records in the state folder are found there. A record in another folder is added to the index
    by a separate process: neither a hung folder nor a hung index may delay the run. The state
    and end of a run are read from its record.
    """
    try:
        path = Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would ask the file system
        if path.parent == runs_folder():
            return
        added = subprocess.Popen(
            process_command("run-indexer", str(path)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=module_environment(),
            start_new_session=True,
        )
        threading.Thread(target=added.wait, name="andon remembers", daemon=True).start()
    except (OSError, RuntimeError):  # the current folder was removed; no more processes, or threads
        return  # `andon runs add` finds it later


def open_run_index() -> "RunIndex":
    """The index of this machine, in its state folder."""
    from andon.app.history import store_kind
    from andon.host.state.node_folder import open_node_folder
    from andon.settings.store_url import url_of_file

    url = url_of_file(str(open_node_folder() / INDEX))
    return store_kind(url).open_runs(url, "")


def load_run_index() -> None:
    """Imports what opens the index, for a process that may not be able to do it later."""
    import_module("andon.stores.sqlite_kind")
    import_module("andon.stores.sqlite_runs")


def open_run_finder(tell: "Callable[[str], None]" = lambda words: None) -> "RunFinder":
    """Opens a finder of runs, by the index and in the folder of records; `close` its index
    afterwards. `tell` is called when a name means the newest of several runs."""
    from andon.runs.index import RunFinder

    return RunFinder(open_run_index(), runs_folder(), tell=tell, printed=printed_progress)


def printed_progress() -> "Mapping[str, WorkProgress]":
    """Returns the progress of this user's running jobs, by the ids of their runs; empty if the
    queue cannot be read."""
    from andon.errors import AndonError
    from andon.jobs.queue import Queue

    try:
        return Queue().progress_by_run()
    except (AndonError, OSError):
        return {}


def retention_policy(settings: "Settings") -> "RetentionPolicy":
    """How long records of the state folder are kept, and how much space they may take."""
    from andon.runs.rules.retention import DAY_SECONDS, RetentionPolicy

    return RetentionPolicy(
        settings.runs_keep_days * DAY_SECONDS, settings.runs_megabytes * 1_000_000
    )
