"""How the commands of `andon runs` get at the runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from andon.engine.records.finder import RunFinder

RUN_FORMS = "RUN is an id or its beginning, the file of a record, or last."


@contextmanager
def finding() -> "Iterator[RunFinder]":
    """The index of this machine, closed afterwards."""
    from andon.app.runs import open_run_finder

    finder = open_run_finder()
    try:
        yield finder
    finally:
        finder.index.close()


def complete_run(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """For the shell: the newest ids that begin so; none rather than an error."""
    from andon.core.runs.matching import RunQuery
    from andon.errors import AndonError

    try:
        with finding() as finder:
            rows = finder.index.beginning(typed, 50) if typed else ()
            rows = rows or finder.index.find(RunQuery(limit=20))
    except AndonError:
        return []
    return [word for word in ("last", *(row.id for row in rows)) if word.startswith(typed)]
