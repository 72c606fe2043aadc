"""Which runs match a search: the same for every index, the command line and the server."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, field
from msgspec.structs import replace

from andon.access.roles import ALL_SEEING, Sight
from andon.errors import Conflict
from andon.model.naming import models_text
from andon.model.run.record import RunKind, RunRow, RunState
from andon.units import printable

MOST_CALLED = 5
OF_A_JOB = frozenset({"job", "attempt"})
"""Parameters that tell jobs apart, not what they do."""
HIDDEN_NAME = "hidden"

PINNED = "pinned"
"""The tag of runs that are listed first; as every tag, it keeps a run from `andon gc`."""


def annotated(row: RunRow, pinned: bool | None, note: str | None) -> tuple[tuple[str, ...], str]:
    """Returns the tags and the note that a run is to have; None leaves one as it is."""
    others = set(row.tags) - {PINNED}
    is_pinned = PINNED in row.tags if pinned is None else pinned
    text = (row.note or "") if note is None else printable(note).strip()
    return tuple(sorted(others | ({PINNED} if is_pinned else set()))), text


class RunQuery(Struct, frozen=True):
    """The criteria of a search; None means any. The newest runs come first."""

    since: float | None = None  # that began at or after
    until: float | None = None  # that began before
    name: str | None = None  # exactly, or with * and ?
    tag: str | None = None
    group: str | None = None
    state: RunState | None = None
    node: str | None = None  # exactly
    model: str | None = None  # part of a device's name, in any case
    words: tuple[str, ...] = ()  # each is a part of any of its texts, in any case
    not_user: str | None = None  # of anyone but this user
    without: frozenset[str] = frozenset()  # ids that are left out
    sight: Sight = ALL_SEEING  # of the caller: what is hidden from it is not found
    limit: int | None = None
    offset: int = 0


class RunListing(Struct, frozen=True):
    """The runs of one page, and how many there are in all."""

    rows: list[RunRow]
    total: int
    note: str | None = None  # what is not there yet


class RunCounts(Struct, frozen=True):
    """How many runs there are, by the names of their devices, by tag, group and state."""

    devices: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    tags: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        return sum(self.states.values())

    def plus(self, other: "RunCounts") -> "RunCounts":
        names = self.__struct_fields__
        return RunCounts(*(Counter(getattr(self, n)) + Counter(getattr(other, n)) for n in names))


def seen_by(sight: Sight, row: RunRow) -> RunRow:
    """Returns a run as this caller sees and finds it: of another user's run only what `ps` and the
    list of jobs would show: a job's group may be its name."""
    if sight.shows(row.user):
        return row
    name, group = (HIDDEN_NAME, None) if row.kind is RunKind.JOB else (row.name, row.group)
    return replace(
        row, name=name, group=group, command=None, note=None, tags=(), message=None, params={},
        last_values={}, extremes={}, progress=None, path="",
    )  # fmt: skip


def matches(row: RunRow, query: RunQuery) -> bool:
    """Whether a run matches, without limit and offset."""
    row = seen_by(query.sight, row)
    return (
        (query.since is None or row.began >= query.since)
        and (query.until is None or row.began < query.until)
        and (query.name is None or fnmatchcase(row.name, glob_of(query.name)))
        and (query.tag is None or query.tag in row.tags)
        and (query.group is None or query.group == row.group)
        and (query.state is None or query.state is row.state)
        and query.node in (None, row.node)
        and (query.model is None or query.model.lower() in models_of(row))
        and (query.not_user is None or query.not_user != row.user)
        and row.id not in query.without
        and _has(row, query.words)
    )


def _has(row: RunRow, words: Sequence[str]) -> bool:
    texts = texts_of(row) if words else ""
    return all(word.lower() in texts for word in words)


def select(rows: Iterable[RunRow], query: RunQuery) -> list[RunRow]:
    """Returns the runs that match a query, the newest first."""
    found = sorted((r for r in rows if matches(r, query)), key=lambda r: (-r.began, r.id))
    last = None if query.limit is None else query.offset + query.limit
    return found[query.offset : last]


def counted(rows: Iterable[RunRow], query: RunQuery) -> RunCounts:
    """Counts the runs that match a query, without its limit and offset."""
    found = [seen_by(query.sight, row) for row in rows if matches(row, query)]
    return RunCounts(
        Counter(names_of(row) for row in found),
        Counter(tag for row in found for tag in row.tags),
        Counter(row.group for row in found if row.group),
        Counter(str(row.state) for row in found),
    )


def glob_of(name: str) -> str:
    """Returns a glob in which only * and ? are special: a bracket is part of the name."""
    return name.replace("[", "[[]")


def texts_of(row: RunRow) -> str:
    """Returns the texts that a search covers, in small letters."""
    known = (row.id, row.name, row.user, row.node, row.group, row.command, row.note, *row.tags)
    return "\n".join([word for word in known if word] + [models_of(row)]).lower()


def models_of(row: RunRow) -> str:
    return "\n".join(names_of(row)).lower()


def names_of(row: RunRow) -> tuple[str, ...]:
    """Returns the names of its devices, each once."""
    return tuple(sorted({device.name for device in row.devices}))


def devices_text(row: RunRow) -> str:
    """`2 × H200`; empty without devices."""
    return models_text(device.name for device in row.devices)


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
