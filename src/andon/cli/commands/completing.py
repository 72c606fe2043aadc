"""What the shell completes: jobs, leases, and the words of a command that andon runs."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from andon.errors import AndonError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MOST = 50
OF_ACTIVE_JOBS = frozenset(("cancel", "hold", "move", "requeue", "wait"))
"""Commands that mean nothing for a job that has ended."""


def complete_job(
    context: click.Context, parameter: click.Parameter, typed: str
) -> "list[CompletionItem]":
    """Completes waiting and running jobs, then ended ones, newest first; none on an error."""
    from andon.jobs.folder import jobs_path

    if not os.access(jobs_path(), os.F_OK):
        return []
    from andon.jobs.queue import Queue

    try:
        queue = Queue()
    except (AndonError, OSError):
        return []
    statuses = queue.statuses
    newest = sorted((one.spec for one in queue.jobs.values()), key=lambda spec: -spec.number)
    active = [spec for spec in newest if not statuses[spec.number].state.is_settled]
    ended = [spec for spec in newest if statuses[spec.number].state.is_settled]
    candidates = active if context.info_name in OF_ACTIVE_JOBS else [*active, *ended]
    items = ((one.label, f"{one.name}, {statuses[one.number].state.text}") for one in candidates)
    return _items(items, typed)


def complete_lease(
    context: click.Context, parameter: click.Parameter, typed: str
) -> "list[CompletionItem]":
    """This user's leases."""
    from andon.leases.own import gpus_of, own_leases

    try:
        held = own_leases()
    except (AndonError, OSError):
        return []
    return _items(((one.id, f"{gpus_of(one)}, {one.command}") for one in held), typed)


def complete_command(
    context: click.Context, parameter: click.Parameter, typed: str
) -> "list[CompletionItem]":
    """The shell's own completion of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(typed, type="file")]


def _items(found: Iterable[tuple[str, str]], typed: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    items = [CompletionItem(name, help=text) for name, text in found if name.startswith(typed)]
    return items[:MOST]
