"""Where the commands of `andon runs` get the runs: from this machine's index or a server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click
from msgspec import Struct

from andon.cli.options import chosen
from andon.cli.terminal import notice
from andon.model.run.record import RunState

if TYPE_CHECKING:
    from andon.model.run.record import RunRow
    from andon.runs.index import RunFinder
    from andon.runs.rules.matching import RunQuery

RUN_FORMS = "RUN is an id or its prefix, a name, the file of a record, or last."


class RunListing(Struct, frozen=True):
    """The runs of one page, and how many there are in all."""

    rows: "list[RunRow]"
    total: int
    note: str | None = None  # what is not there yet


class RunSource(Protocol):
    """Where runs are read."""

    def listed(self, query: "RunQuery") -> RunListing: ...
    def find(self, query: "RunQuery") -> "Sequence[RunRow]": ...
    def is_id(self, word: str) -> bool: ...
    def resolve(self, word: str) -> "RunRow":
        """Returns the run that the argument names."""

    def with_record(self, row: "RunRow") -> "RunRow":
        """Returns the row with a path where its record can be read."""


class LocalRuns:
    """The index of this machine."""

    def __init__(self, finder: "RunFinder") -> None:
        self._finder = finder

    def listed(self, query: "RunQuery") -> RunListing:
        finder = self._finder
        left = finder.refresh()
        rows = list(finder.index.find(query))
        total = len(rows) if query.limit is None else finder.index.count(query)
        more = f"{left} more records are not read yet; to read them all: andon runs add"
        return RunListing(rows, total, f"{more} {finder.folder}" if left else None)

    def find(self, query: "RunQuery") -> "Sequence[RunRow]":
        self._finder.refresh()
        return self._finder.index.find(query)

    def is_id(self, word: str) -> bool:
        return any(row.id == word for row in self._finder.index.beginning(word, 1))

    def resolve(self, word: str) -> "RunRow":
        return self._finder.resolve(word)

    def with_record(self, row: "RunRow") -> "RunRow":
        return row


@contextmanager
def finding() -> "Iterator[RunFinder]":
    """Opens the index of this machine and closes it afterwards."""
    from andon.app.runs import open_run_finder

    finder = open_run_finder(lambda words: notice(words, chosen()))
    try:
        yield finder
    finally:
        finder.index.close()


@contextmanager
def reading() -> Iterator[RunSource]:
    """The runs of this machine, or with --url those of a server."""
    url = chosen().url
    if url is None:
        with finding() as finder:
            yield LocalRuns(finder)
        return
    from andon.cli.commands.runs.of_server import RemoteRuns
    from andon.cli.snapshot_source import connected

    yield RemoteRuns(connected(chosen(), url), click.get_current_context())


def runs_named(source: RunSource, name: str) -> "list[RunRow]":
    """Returns the runs of this name that succeeded; none if a run has exactly this id. A name
    takes precedence over a prefix of an id; a longer prefix resolves the conflict."""
    from andon.runs.rules.matching import RunQuery

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
    from andon.errors import AndonError
    from andon.runs.rules.matching import RunQuery

    try:
        with finding() as finder:
            rows = finder.index.beginning(typed, 50) if typed else ()
            rows = rows or finder.index.find(RunQuery(limit=20))
    except AndonError:
        return []
    return [word for word in ("last", *(row.id for row in rows)) if word.startswith(typed)]
