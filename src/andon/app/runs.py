"""Runs: where their records are, the index that finds them, and how a record is added to it."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from andon.errors import AndonError
from andon.host.state.user_folder import runs_folder
from andon.model.job.progress import WorkProgress
from andon.settings.resolution import Settings

if TYPE_CHECKING:  # whoever makes a run needs none of it
    from andon.ports import RunIndex
    from andon.runs.index import RunFinder
    from andon.runs.opening import RunRecording
    from andon.runs.record import SampleSource
    from andon.runs.rules.retention import RetentionPolicy

INDEX = "runs.db"


def recording(
    settings: Settings,
    source: "SampleSource",
    notify: Callable[[str], None] = lambda text: None,
    folder: Path | None = None,
    direct: bool = False,
) -> "RunRecording":
    """How runs are recorded under these settings; without a folder, in the state folder."""
    from andon.app.thresholds import rulebook
    from andon.runs.opening import RunRecording

    return RunRecording(source, lambda: rulebook(settings), notify, folder, direct)


def open_run_index(settings: Settings | None = None, in_memory: bool = False) -> "RunIndex":
    """The index of this machine: in its state folder, or where the settings keep the history if
    that is a database of several machines and not a file; or an empty one in memory."""
    from andon.app.history import store_kind, store_node, store_url
    from andon.host.state.node_folder import open_node_folder
    from andon.settings.store_url import MEMORY, parse_store_url, url_of_file

    if settings is not None and settings.history_store and not in_memory:
        url = store_url(settings)
        if url.scheme not in ("sqlite", "memory"):
            return store_kind(url).open_runs(url, store_node(settings))
    file = None if in_memory else str(open_node_folder() / INDEX)
    url = parse_store_url(MEMORY) if file is None else url_of_file(file)
    return store_kind(url).open_runs(url, "")


def load_run_index() -> None:
    """Imports what opens the index, for a process that may not be able to do it later."""
    for name in (
        "app.history",
        "host.state.node_folder",
        "stores.sqlite_kind",
        "stores.sqlite_runs",
    ):
        import_module(f"andon.{name}")


def open_run_finder(
    notify: Callable[[str], None] = lambda message: None,
    settings: Settings | None = None,
    in_memory: bool = False,
) -> "RunFinder":
    """Opens a finder of runs, by the index and in the folder of records; `close` its index
    afterwards. `notify` is called when a name means the newest of several runs. With `in_memory`
    the index of this machine is neither read nor written."""
    from andon.runs.index import RunFinder

    index = open_run_index(settings, in_memory)
    return RunFinder(index, runs_folder(), notify=notify, printed=printed_progress)


def printed_progress() -> Mapping[str, WorkProgress]:
    """Returns the progress of this user's running jobs, by the ids of their runs; empty if the
    queue cannot be read."""
    from andon.jobs.queue import Queue

    try:
        return Queue().progress_by_run()
    except (AndonError, OSError):
        return {}


def retention_policy(settings: Settings) -> "RetentionPolicy":
    """How long records of the state folder are kept, and how much space they may take."""
    from andon.runs.rules.retention import DAY_SECONDS, RetentionPolicy

    return RetentionPolicy(
        settings.runs_keep_days * DAY_SECONDS, settings.runs_megabytes * 1_000_000
    )
