"""`andon gc`: runs the maintenance of the history now, and deletes old records of runs."""

import time
from contextlib import closing

import click

from andon.app.history import maintainer_of, open_past, open_store
from andon.app.runs import open_run_finder, retention_policy
from andon.cli.options import chosen, shared
from andon.cli.sources import settings_of
from andon.cli.terminal import Terminal, report
from andon.errors import AndonError, Gone, Unavailable
from andon.history.rules.tiers import Maintenance
from andon.host.state.user_folder import runs_folder
from andon.jobs.folder import jobs_path
from andon.jobs.queue import Queue, collect
from andon.runs.index import CollectedRecords
from andon.settings.resolution import Settings
from andon.units import counted, human_bytes


@click.command()
@shared
def gc() -> int:
    """Pack and roll up the history, delete what is too old, and free the disk space.

    `andon serve` does the same automatically, a little at a time. Run records in the state folder
    are deleted according to `runs.keep_days` and `runs.megabytes`, oldest first. Tagged ones, those
    of a baseline and those in other folders are never deleted. Jobs that have ended are deleted
    with their output after `jobs.keep_days`.
    """
    settings, terminal = settings_of(chosen()), Terminal.of(chosen())
    # Jobs first: deleting them needs no room, which the others do on a full disk.
    parts = [_jobs] if jobs_path().is_dir() else []
    parts += [_runs] if runs_folder().is_dir() else []
    code = 0
    for part in parts:
        try:
            terminal.remark(part(settings))
        except AndonError as error:
            full = "andon gc" in error.hint
            error.hint = "free some space, then try again" if full else error.hint
            report(error)
            code = error.exit_code
    try:
        terminal.remark(_history(settings))
    except Unavailable as none:
        if not parts or not isinstance(none.__cause__, Gone):
            raise
    return code


def _jobs(settings: Settings) -> str:

    queue = Queue()
    count = collect(queue, settings.jobs_keep_days)
    deleted = f"{counted(count, 'job')} deleted" if count else "no job is too old"
    return f"{queue.folder.path}: {deleted}, {len(queue.jobs) - count} left"


def _history(settings: Settings) -> str:
    with closing(open_past(settings)) as store:
        place, before = store.place, store.size_bytes()
    with closing(open_store(settings)) as store:
        done = maintainer_of(settings, store).finish(time.time())
    # Read again: closing a store may remove its journals, unless a server also has it open.
    with closing(open_past(settings)) as store:
        return f"{place}: {describe(done, before, store.size_bytes())}"


def _runs(settings: Settings) -> str:
    finder = open_run_finder(settings=settings)
    with closing(finder.index):
        return f"{finder.folder}: {describe_runs(finder.collect(retention_policy(settings)))}"


def describe_runs(done: CollectedRecords) -> str:
    """Returns one line about the deleted and kept records."""
    parts = [
        (len(done.deleted), f"deleted ({human_bytes(done.freed_bytes)})"),
        (len(done.forgotten), "without a record forgotten"),
    ]
    counts = [f"{counted(count, 'run')} {what}" for count, what in parts if count]
    return ", ".join([*(counts or ["no run is too old"]), f"{human_bytes(done.left_bytes)} now"])


def describe(done: Maintenance, before_bytes: int, after_bytes: int) -> str:
    """Returns one line about the maintenance that was done."""
    parts = [
        (done.packed_ticks, "{} samples packed"),
        (done.rolled_blocks, "{} blocks rolled up"),
        (done.deleted_blocks, "{} blocks deleted"),
        (done.deleted_uses, "{} intervals deleted"),
        (done.damaged_blocks, "{} damaged blocks skipped"),
    ]
    phrases = [text.format(count) for count, text in parts if count]
    if not phrases:  # closing a store frees what its journal held
        phrases = ["compacted" if after_bytes < before_bytes else "nothing to do"]
    now = human_bytes(after_bytes)
    same = now == human_bytes(before_bytes)
    return ", ".join([*phrases, now if same else f"{human_bytes(before_bytes)} before, {now} now"])
