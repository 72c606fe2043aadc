"""Which runs match a search: the same for every index, the command line and the server."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from andon.errors import Conflict
from andon.model.naming import models_in_words
from andon.model.run.record import RunRow, RunState

MOST_CALLED = 5


class RunQuery(Struct, frozen=True):
    """The criteria of a search; None means any. The newest runs come first."""

    since: float | None = None  # that began at or after
    until: float | None = None  # that began before
    name: str | None = None  # exactly, or with * and ?
    tag: str | None = None
    group: str | None = None
    state: RunState | None = None
    model: str | None = None  # part of a device's name, in any case
    text: str | None = None  # part of any of its words, in any case
    limit: int | None = None
    offset: int = 0


class RunListing(Struct, frozen=True):
    """The runs of one page, and how many there are in all."""

    rows: list[RunRow]
    total: int
    note: str | None = None  # what is not there yet


def matches(row: RunRow, query: RunQuery) -> bool:
    """Whether a run matches, without limit and offset."""
    return (
        (query.since is None or row.began >= query.since)
        and (query.until is None or row.began < query.until)
        and (query.name is None or fnmatchcase(row.name, glob_of(query.name)))
        and (query.tag is None or query.tag in row.tags)
        and (query.group is None or query.group == row.group)
        and (query.state is None or query.state is row.state)
        and (query.model is None or query.model.lower() in models_of(row))
        and (query.text is None or query.text.lower() in words_of(row))
    )


def select(rows: Iterable[RunRow], query: RunQuery) -> list[RunRow]:
    """Returns the runs that match a query, the newest first."""
    found = sorted((r for r in rows if matches(r, query)), key=lambda r: (-r.began, r.id))
    last = None if query.limit is None else query.offset + query.limit
    return found[query.offset : last]


def glob_of(name: str) -> str:
    """Returns a glob in which only * and ? are special: a bracket is part of the name."""
    return name.replace("[", "[[]")


def words_of(row: RunRow) -> str:
    """The texts that a search covers."""
    known = (row.id, row.name, row.user, row.node, row.group, row.command, row.note, *row.tags)
    return "\n".join([word for word in known if word] + [models_of(row)]).lower()


def models_of(row: RunRow) -> str:
    return "\n".join(sorted({device.name for device in row.devices})).lower()


def devices_words(row: RunRow) -> str:
    """`2 × H200`; empty without devices."""
    return models_in_words(device.name for device in row.devices)


def called(
    word: str, rows: Sequence[RunRow], only_one: bool = False
) -> tuple[RunRow, str | None] | None:
    """Returns the run of this name; of several the newest, with a sentence about it; with
    `only_one` several are refused. None if no run has it. `rows` come with the newest first."""
    found = [row for row in rows if row.name == word]
    if not found:
        return None
    if len(found) == 1:
        return found[0], None
    ids = ", ".join(row.id for row in found[:MOST_CALLED])
    if only_one:
        hint = f"name one by its id, the newest first: {ids}"
        raise Conflict(f"{len(found)} runs are called {word[:40]!r}", hint=hint)
    note = f"run {found[0].id} is the newest of {len(found)} called {word[:40]}: {ids}"
    return found[0], note
