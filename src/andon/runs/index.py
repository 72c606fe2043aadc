"""Finds runs: keeps the index in step with the records, and resolves the names of runs."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Gone, Invalid
from andon.host.machine_id import node_name
from andon.host.processes.kin import pid_scope, started_ticks
from andon.model.job.progress import WorkProgress
from andon.model.run.record import RunBegin, RunKind, RunRow, RunState
from andon.ports import RunIndex
from andon.runs.files import RecordRead, delete_record, read_ends, size_of
from andon.runs.growing import RunRecords
from andon.runs.rules.fold import row_of
from andon.runs.rules.matching import RunQuery, called
from andon.runs.rules.retention import RetentionPolicy, StoredRecord, overdue

# Whether the process of a run is still alive, as far as this machine can tell.

FRESH_SECONDS = 60.0
"""A record that grows belongs to a run that lives: samples come every five seconds at most."""


def is_alive(begin: RunBegin, modified: float, now: float) -> bool:
    """Whether a run is alive, by its process; on another machine or in a container, by when its
    record last grew."""
    where, fresh = pid_scope(), now - modified < FRESH_SECONDS
    if begin.boot is None or begin.boot != where.boot:
        return fresh and begin.node != node_name()
    if begin.pid_namespace not in (None, where.pid_namespace):
        return fresh
    started = started_ticks(begin.pid)
    return started is not None and begin.started in (None, started)


SUFFIX = ".jsonl"
LAST = ("last", "@")
"""@ is also the last job, in commands about jobs."""
UNFINISHED_BYTES = 1024 * 1024  # what a list reads of a record without an end
BUDGET_SECONDS = 1.0
FOREVER = float("inf")
USED = ("mean_utilization_percent", "peak_memory_bytes", "energy_joules", "energy_source",
        "idle_share")  # fmt: skip
BATCH, MOST_RUNNING = 100, 64
MOST_CANDIDATES = 10


class AddedRecords(Struct):
    """The result of adding files."""

    added: list[RunRow] = field(default_factory=list)
    moved: list[RunRow] = field(default_factory=list)  # that the index had at another path
    known: int = 0  # runs that the index had before
    refused: list[tuple[Path, str]] = field(default_factory=list)


class CollectedRecords(Struct):
    """The deleted runs, by id."""

    deleted: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)  # their records were gone
    freed_bytes: int = 0
    left_bytes: int = 0


class RunFinder:
    """One index, and the default folder of records."""

    def __init__(
        self,
        index: RunIndex,
        folder: Path,
        clock: Callable[[], float] = time.time,
        notify: Callable[[str], None] = lambda message: None,
        printed: Callable[[], Mapping[str, WorkProgress]] = dict,
    ) -> None:
        """`notify` is called when a name means the newest of several runs; `printed` returns the
        progress of jobs' runs, from the jobs' outputs."""
        self.index, self.folder, self._clock, self._notify = index, folder, clock, notify
        self._printed = printed
        self._records = RunRecords(MOST_RUNNING)

    def refresh(self, budget_seconds: float = BUDGET_SECONDS) -> int:
        """Updates the index: runs in progress first, then new records of the folder, the newest
        first. Returns how many records are left for the next call."""
        until = time.monotonic() + budget_seconds
        self._reread(self.index.find(RunQuery(state=RunState.RUNNING)), until)
        known = self.index.paths()
        new = [Path(path) for path in _records(self.folder) if path not in known]
        new.sort(key=_modified, reverse=True)
        for place in range(0, len(new), BATCH):
            if place and time.monotonic() > until:
                return len(new) - place
            self.add(new[place : place + BATCH])
        return 0

    def add(self, paths: Iterable[Path]) -> AddedRecords:
        """Adds files, and the records in folders, at any depth."""
        done = AddedRecords()
        batch: dict[str, RunRow] = {}
        for path in paths:
            for file in _files(path):
                self._add_file(file, batch, done)
                if len(batch) >= BATCH:
                    self.index.put(self._with_printed(list(batch.values())))
                    batch.clear()
        self.index.put(self._with_printed(list(batch.values())))
        return done

    def collect(self, policy: RetentionPolicy) -> CollectedRecords:
        """Deletes overdue records of the folder, and removes runs without one from the index."""
        self.refresh(FOREVER)
        held = {one.id for baseline in self.index.baselines() for one in baseline.runs}
        done, records = CollectedRecords(), list[StoredRecord]()
        for row in self.index.find(RunQuery()):
            path = Path(row.path)
            if path.parent != self.folder:
                continue
            size = size_of(path)
            if size is not None:
                records.append(StoredRecord(row, size))
            elif not (row.tags or row.note or row.id in held):
                done.forgotten.append(row.id)
        for record in overdue(records, policy, self._clock(), held):
            delete_record(Path(record.row.path))
            done.deleted.append(record.row.id)
            done.freed_bytes += record.size_bytes
        self.index.drop([*done.deleted, *done.forgotten])
        done.left_bytes = sum(record.size_bytes for record in records) - done.freed_bytes
        return done

    def resolve(self, word: str, only_one: bool = False) -> RunRow:
        """Returns the run that `last` or `@`, a file, an id, a name or a prefix of an id means;
        of several with that name the newest, or with `only_one` none."""
        if word in LAST:
            self.refresh()
            for row in self.index.find(RunQuery(limit=1)):
                return row
            raise Gone("there are no runs yet", hint="andon run records one")
        # Unlike Path.is_file, it returns False for a name that is too long for a path.
        if os.sep in word or word.endswith(SUFFIX) or os.path.isfile(word):  # noqa: PTH113
            return self.at(Path(word))
        found = self._called(word, only_one) or self._by_id(word)
        return self._reread([found])[0] if found.state is RunState.RUNNING else found

    def at(self, path: Path) -> RunRow:
        """Returns the run of a file as it is now; with its tags and note if the index has it."""
        row = self._read(absolute(path))
        for known in self.index.beginning(row.id, 1):
            if (known.id, known.began, known.path) == (row.id, row.began, row.path):
                return replace(row, tags=known.tags, note=known.note)
        return row

    def row_of(self, read: RecordRead) -> RunRow:
        alive = read.fold.end is None and is_alive(read.begin, read.modified, self._clock())
        row = row_of(read.begin, read.fold, str(read.path), alive, read.whole)
        return row if read.owner is None else replace(row, user=read.owner)

    def _by_id(self, word: str) -> RunRow:
        found = self.index.beginning(word, MOST_CANDIDATES + 1) if word else ()
        if not found and word:
            self.refresh()
            found = self.index.beginning(word, MOST_CANDIDATES + 1)
        if not found:
            raise Gone(
                f"there is no run {word[:40]!r}",
                hint="andon runs lists them; name a file by its path",
            )
        if len(found) > 1 and found[0].id != word:
            raise _ambiguous(word, found)
        return found[0]

    def _called(self, word: str, only_one: bool) -> RunRow | None:
        """Finds a run by its name, unless a run has exactly this id. A name takes precedence over a
        prefix of an id, because more of the id can be given."""
        if not word.isprintable() or any(row.id == word for row in self.index.beginning(word, 1)):
            return None
        self.refresh()
        found = called(word, self.index.find(RunQuery(name=word)), only_one)
        if found is not None and found[1] is not None:
            self._notify(found[1])
        return None if found is None else found[0]

    def _reread(self, rows: Sequence[RunRow], until: float = FOREVER) -> list[RunRow]:
        """Reads the records of runs in progress again, and returns the runs as they are now."""
        now = self._with_printed([self._reread_row(row, until) for row in rows])
        changed = [new for new, old in zip(now, rows, strict=True) if new != old]
        if changed:
            self.index.put(changed)
        return now

    def _with_printed(self, rows: list[RunRow]) -> list[RunRow]:
        """Adds the progress that the output of jobs shows to their runs."""
        if not any(_is_job(row) for row in rows):
            return rows
        found = self._printed()
        return [
            replace(row, progress=found[row.id]) if _is_job(row) and row.id in found else row
            for row in rows
        ]

    def _reread_row(self, row: RunRow, until: float) -> RunRow:
        try:
            new = self._read(Path(row.path), until)
        except (Gone, Invalid):
            new = None
        except AndonError:
            return row  # it cannot be read now
        if new is None or new.id != row.id:
            return replace(row, state=RunState.LOST, message="its record is gone")
        known = USED if new.state is RunState.RUNNING and new.peak_memory_bytes is None else ()
        return replace(new, tags=row.tags, note=row.note, **{n: getattr(row, n) for n in known})

    def _read(self, path: Path, until: float | None = None) -> RunRow:
        """Reads a record; of a run in progress what it has used so far, if there is time."""
        row = self.row_of(read_ends(path, 0))
        if row.state is RunState.LOST:
            return self.row_of(read_ends(path, UNFINISHED_BYTES))
        return self._with_use_so_far(row, until) if row.state is RunState.RUNNING else row

    def _with_use_so_far(self, row: RunRow, until: float | None) -> RunRow:
        record, now = self._records.of(row.id, row.path), time.monotonic()
        with suppress(AndonError):  # it is a link, or was just replaced
            record.refresh(BUDGET_SECONDS if until is None else max(0.0, until - now))
            if record.read_bytes == record.of_bytes:
                return replace(row_of(record.begin, record.fold, row.path, True), user=row.user)
        return row

    def _add_file(self, path: Path, batch: dict[str, RunRow], done: AddedRecords) -> None:
        try:
            str(path).encode()
            row = self._read(path)
            known = self._known(row, batch)
            moved = known is not None and known.path != row.path
        except UnicodeEncodeError:
            done.refused.append((path, "its name is not text"))
        except AndonError as exc:
            done.refused.append((path, exc.reason))
        else:
            batch[row.id] = row
            if known is None:
                done.added.append(row)
            elif moved:
                done.moved.append(row)
            else:
                done.known += 1

    def _known(self, row: RunRow, batch: Mapping[str, RunRow]) -> RunRow | None:
        """Returns the run as the index has it; raises Conflict if it has it from another file."""
        found = (one for one in self.index.beginning(row.id, 1) if one.id == row.id)
        had = batch.get(row.id) or next(found, None)
        if had is None or had.path == row.path:
            return had
        if had.began != row.began or had.node != row.node:
            raise Conflict(f"run {row.id} is another one, of {had.path}")
        if Path(had.path).exists():
            raise Conflict(f"a copy of run {row.id}, which is at {had.path}")
        return had  # it was moved


def _is_job(row: RunRow) -> bool:
    return row.kind is RunKind.JOB and row.state is RunState.RUNNING


def absolute(path: Path) -> Path:
    """Returns an absolute path without asking the file system: a folder may hang."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` follows links


def _files(path: Path) -> Iterator[Path]:
    path = absolute(path)
    if not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        for name in sorted(names):
            if name.endswith(SUFFIX):
                yield Path(folder, name)


def _records(folder: Path) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(folder) if entry.name.endswith(SUFFIX)]
    except OSError:
        return []


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _ambiguous(word: str, found: Sequence[RunRow]) -> Conflict:
    more = len(found) > MOST_CANDIDATES
    shown = found[:MOST_CANDIDATES]
    count = f"more than {MOST_CANDIDATES}" if more else str(len(found))
    return Conflict(
        f"{count} runs begin with {word[:40]!r}",
        hint="give more of the id",
        mistakes=tuple(f"{row.id}  {row.name}  {time.ctime(row.began)}" for row in shown),
    )
