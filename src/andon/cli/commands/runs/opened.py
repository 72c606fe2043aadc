"""What the commands of `andon runs` share: how a run is named, and this machine's index."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from andon.app.runs import open_run_finder
from andon.cli.options import chosen
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, notice
from andon.errors import AndonError, Gone
from andon.model.run.record import RunRow, RunState
from andon.node.port import NodeRuns
from andon.runs.files import RecordRead
from andon.runs.index import RunFinder
from andon.runs.rules.matching import RunQuery
from andon.units import sh

RUN_FORMS = "RUN is an id or its prefix, a name, the file of a record, or last."


@contextmanager
def finding(choices: Choices | None = None) -> Iterator[RunFinder]:
    """Opens the index of this machine and closes it afterwards."""
    choices = choices or chosen()
    finder = open_run_finder(lambda message: notice(message, choices), settings_of(choices))
    try:
        yield finder
    finally:
        finder.index.close()


def record_of(source: NodeRuns, row: RunRow, read: Callable[[Path], RecordRead]) -> RecordRead:
    """Returns the record of a run as it is now; raises Gone if its file is gone or another's."""
    try:
        found = read(source.record(row))
    except Gone as exc:
        raise Gone(f"the record of run {row.id} is no longer at {row.path}", hint=exc.hint) from exc
    if found.begin.id != row.id:
        hint = f"andon runs add {sh(row.path)}, or andon runs rm {row.id}"
        raise Gone(f"{row.path} is the record of another run now", hint=hint)
    return found


def runs_named(source: NodeRuns, name: str) -> list[RunRow]:
    """Returns the runs of this name that succeeded; none if a run has exactly this id. A name
    takes precedence over a prefix of an id; a longer prefix resolves the conflict."""
    rows = source.find(RunQuery(name=name))
    if not rows or source.is_id(name):
        return []
    good = [row for row in rows if row.state is RunState.SUCCEEDED]
    if good and len(good) < len(rows):
        notice(
            f"{name}: {len(rows) - len(good)} of its runs did not succeed and are left out",
            chosen(),
        )
    return good


def complete_run(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Completes the newest ids that begin with what was typed; an error gives no suggestion."""
    try:
        with finding(Choices(quiet=True)) as finder:
            rows = finder.index.beginning(typed, 50) if typed else ()
            rows = rows or finder.index.find(RunQuery(limit=20))
    except AndonError:
        return []
    return [word for word in ("last", *(row.id for row in rows)) if word.startswith(typed)]
