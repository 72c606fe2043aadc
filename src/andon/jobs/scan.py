"""Reads the folder of jobs: everything once, afterwards only what changed.

What a job's folder holds is kept with the folder's time. While an attempt is running, its own
folder is read each time. `index.json` keeps the same between commands; it is only a cache.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from andon.host.files import is_locked, open_regular, read_regular
from andon.jobs.folder import (
    ADOPTED,
    AGAIN,
    CANCELLED,
    CLAIM,
    CONTAINER,
    END,
    EXPIRED,
    HELD,
    INDEX,
    JOB,
    ORDER,
    SMALL_BYTES,
    VERDICT,
    JobsFolder,
    attempts_in,
    is_number,
    write_whole,
)
from andon.jobs.index import IndexedJob, facts_from_row, index_text, indexed, read_index
from andon.jobs.rules.order import OrderKey, order_key
from andon.jobs.rules.states import JobStatus, job_statuses, lasting_status
from andon.model.codec import Wrong, read
from andon.model.job.facts import (
    AdoptedClaim,
    AttemptClaim,
    AttemptEnd,
    AttemptFacts,
    AttemptVerdict,
    JobFacts,
    JobNote,
    adopted,
    loads,
)
from andon.model.job.spec import LARGEST_JOB_BYTES, spec_from_json

T = TypeVar("T")

# The jobs of a folder as a mapping; an indexed job is decoded only when it is requested.


class CachedJob(Struct):
    """A job as it was read or as the index has it, and its folder's time at that moment."""

    stamp: int
    final: bool  # no attempt is going on: only a new file in the folder can change it
    facts: JobFacts | None = None  # None: not decoded yet
    indexed: IndexedJob | None = None


class FoundJobs(Mapping[int, JobFacts]):
    """Every readable job by its number, in the order of numbers."""

    def __init__(
        self, known: Mapping[int, CachedJob], read_again: Callable[[int], JobFacts | None]
    ) -> None:
        self._known = known
        self._read_again = read_again

    def __getitem__(self, number: int) -> JobFacts:
        known = self._known[number]
        if known.facts is None and known.indexed is not None:
            known.facts = facts_from_row(known.indexed.row) or self._read_again(number)
        if known.facts is None:
            raise KeyError(number)
        return known.facts

    def __contains__(self, number: object) -> bool:
        return number in self._known

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def statuses(self, at: float, paused: bool = False) -> dict[int, JobStatus]:
        """The state of each job; decodes only those that depend on the time or on other jobs."""
        settled: dict[int, JobStatus] = {}
        open_: list[JobFacts] = []
        for number, known in self._known.items():
            if known.facts is None and known.indexed is not None and known.indexed.status:
                settled[number] = known.indexed.status
            else:
                open_.append(self[number])
        return job_statuses(open_, at, paused, settled)

    def order_keys(self) -> dict[int, OrderKey]:
        """Returns the key of each job's place by its number; the smallest key comes first."""
        return {
            number: known.indexed.key
            if known.facts is None and known.indexed is not None
            else order_key(self[number])
            for number, known in self._known.items()
        }


class StatusCache:
    """Caches the states of jobs that nothing can change any more."""

    def __init__(self) -> None:
        self._cached: dict[int, tuple[JobFacts, JobStatus | None]] = {}

    def judge(
        self, jobs: Mapping[int, JobFacts], at: float, paused: bool = False
    ) -> dict[int, JobStatus]:
        """Returns what `job_statuses` returns; a job whose facts are the same object is not judged
        again."""
        before, self._cached = self._cached, {}
        settled: dict[int, JobStatus] = {}
        open_: list[JobFacts] = []
        for number, facts in jobs.items():
            cached = before.get(number)
            if cached is None or cached[0] is not facts:
                cached = (facts, lasting_status(facts))
            self._cached[number] = cached
            if cached[1] is None:
                open_.append(facts)
            else:
                settled[number] = cached[1]
        return job_statuses(open_, at, paused, settled)


RACY_NANOSECONDS = 2_000_000_000
"""A folder that changed this recently may change again without its time showing it."""
WORTH_INDEXING = 200  # folders that were read without a cache
CONTAINER_SECONDS = 1.0
LARGEST_INDEX_BYTES = 256 * 1024 * 1024


class Scanner:
    """The jobs in one folder. Not thread-safe."""

    def __init__(self, folder: JobsFolder, index: bool = True) -> None:
        self.folder = folder
        self.unread: dict[str, str] = {}  # files that were passed over, and why
        self._known = self._index() if index else {}
        self._read = 0  # folders that were read, not known
        self._unclaimed = False  # the job that was read last has an attempt without a claim
        self._containers: dict[Path, tuple[float, bool]] = {}  # until when each is believed

    def read(self) -> FoundJobs:
        """Reads every job by its number; those of the index are decoded when they are used."""
        now, found = time.time_ns(), dict[int, CachedJob]()
        for number, stamp in self._folders():
            known = self._known.get(number)
            if known is None or known.stamp != stamp or not known.final:
                known = self._job(number, stamp, now)
            if known is not None:
                found[number] = known
        self._known = found
        return FoundJobs(found, self.again)

    def scan(self) -> dict[int, JobFacts]:
        """Returns all jobs, decoded."""
        return dict(self.read())

    def again(self, number: int) -> JobFacts | None:
        """Reads one job now; None if it is gone."""
        try:
            stamp = self.folder.job(number).stat().st_mtime_ns
        except OSError:
            return None
        known = self._job(number, stamp, time.time_ns())
        if known is None:
            return None
        self._known[number] = known
        return known.facts

    def save(self, at_least: int = WORTH_INDEXING) -> None:
        """Writes the index if `at_least` that many jobs were read from their folders."""
        if self._read < at_least:
            return
        rows = dict[int, IndexedJob]()
        for number, known in self._known.items():
            if known.final and known.indexed is None and known.facts is not None:
                known.indexed = indexed(known.stamp, known.facts)
            if known.final and known.indexed is not None:
                rows[number] = known.indexed
        with suppress(OSError):
            write_whole(self.folder.path, INDEX, index_text(rows), sync=False)
            self._read = 0

    def _folders(self) -> list[tuple[int, int]]:
        out: list[tuple[int, int]] = []
        try:
            with os.scandir(self.folder.path) as entries:
                for entry in entries:
                    if is_number(entry.name):
                        with suppress(OSError):
                            stamp = entry.stat(follow_symlinks=False).st_mtime_ns
                            out.append((int(entry.name), stamp))
        except FileNotFoundError:
            return []
        return sorted(out)

    def _index(self) -> dict[int, CachedJob]:
        try:
            rows = read_index(read_regular(self.folder.path / INDEX, LARGEST_INDEX_BYTES))
        except OSError:
            return {}
        return {number: CachedJob(row.stamp, True, indexed=row) for number, row in rows.items()}

    def _job(self, number: int, stamp: int, now: int) -> CachedJob | None:
        folder = self.folder.job(number)
        self._read += 1
        self._unclaimed = False
        try:
            facts = self._facts(folder, number)
        except FileNotFoundError:  # being written, or being removed
            return None
        except (OSError, Wrong) as exc:
            self.unread[str(folder / JOB)] = str(getattr(exc, "strerror", None) or exc)
            return None
        last = facts.last
        settled = last is None or last.verdict is not None
        settled = settled and not self._unclaimed and abs(now - stamp) > RACY_NANOSECONDS
        return CachedJob(stamp, settled, facts)

    def _facts(self, folder: Path, number: int) -> JobFacts:
        content = read_regular(folder / JOB, LARGEST_JOB_BYTES)
        spec = spec_from_json(loads(content), environment=False)
        if spec.number != number:
            raise Wrong("number", f"is {spec.number}, not that of its folder")
        names = set(os.listdir(folder))  # noqa: PTH208 - names alone
        return JobFacts(
            spec,
            held=HELD in names,
            cancelled=self._note(folder, CANCELLED) if CANCELLED in names else None,
            again=self._note(folder, AGAIN) if AGAIN in names else None,
            expired=self._note(folder, EXPIRED) if EXPIRED in names else None,
            order=self._order(folder) if ORDER in names else None,
            attempts=self._attempts(folder) if any(n.startswith("attempt-") for n in names) else (),
        )

    def _attempts(self, folder: Path) -> tuple[AttemptFacts, ...]:
        found = [self._attempt(folder / f"attempt-{n}", n) for n in attempts_in(folder)]
        # A claim may still come there, which the time of the job's folder would not show.
        self._unclaimed = None in found
        return tuple(attempt for attempt in found if attempt is not None)

    def _attempt(self, folder: Path, number: int) -> AttemptFacts | None:
        """Reads an attempt; without a claim it has not started; with a damaged claim it has, and
        who claimed it is unknown."""
        locked, claim = False, None
        try:
            descriptor = open_regular(folder / CLAIM)
        except FileNotFoundError:
            return None
        except OSError as exc:
            self.unread[str(folder / CLAIM)] = str(exc.strerror)
        else:
            try:
                locked = is_locked(descriptor)
                claim = read(AttemptClaim, loads(os.read(descriptor, SMALL_BYTES)))
            except (OSError, Wrong) as exc:
                self.unread[str(folder / CLAIM)] = str(getattr(exc, "strerror", None) or exc)
            finally:
                os.close(descriptor)
        claim = claim or _unknown_claim(folder)
        # After the lock: a supervisor writes the end before it gives up the claim.
        end = self._small(folder, END, AttemptEnd)
        verdict = self._small(folder, VERDICT, AttemptVerdict)
        alive = False
        if end is None and verdict is None:
            claim = adopted(claim, self._small(folder, ADOPTED, AdoptedClaim))
            alive = not locked and (group_lives(claim) or self._container_lives(folder, claim))
        return AttemptFacts(number, claim, locked, alive, end, verdict)

    def _container_lives(self, folder: Path, claim: AttemptClaim) -> bool:
        """Whether a job's container is alive; reads all processes, once a second at most."""
        if not (folder / CONTAINER).exists():
            return False
        now = time.monotonic()
        due, lives = self._containers.get(folder, (0.0, False))
        if now >= due:
            from andon.jobs.container_files import container_lives  # most have no container

            lives = container_lives(folder, claim)
            self._containers[folder] = (now + CONTAINER_SECONDS, lives)
        return lives

    def _note(self, folder: Path, name: str) -> JobNote | None:
        return self._small(folder, name, JobNote)

    def _order(self, folder: Path) -> float | None:
        with suppress(OSError, ValueError):
            found = float(read_regular(folder / ORDER, 64))
            return found if abs(found) < 1e15 else None
        return None

    def _small(self, folder: Path, name: str, kind: type[T]) -> T | None:
        try:
            return read(kind, loads(read_regular(folder / name, SMALL_BYTES)))
        except FileNotFoundError:
            return None
        except (OSError, Wrong) as exc:
            self.unread[str(folder / name)] = str(getattr(exc, "strerror", None) or exc)
            return None


def _unknown_claim(folder: Path) -> AttemptClaim:
    """Returns a claim that names no process."""
    try:
        at = folder.stat().st_mtime
    except OSError:
        at = 0.0
    return AttemptClaim(pid=0, started_ticks=0, boot=None, group=0, group_ticks=0, at=at)


def group_lives(claim: AttemptClaim) -> bool:
    """Whether a process of the command's group lives; it is the leader of its own session."""
    from andon.host.processes.kin import (  # not needed for most lists
        group_members,
        pid_scope,
        started_ticks,
    )

    if claim.boot != pid_scope().boot or claim.group <= 1:
        return False
    started = started_ticks(claim.group)
    if started is not None:
        return started == claim.group_ticks
    members = group_members({claim.group}).get(claim.group, ())
    return any(
        one.session == claim.group and one.started_ticks >= claim.group_ticks and not one.ended
        for one in members
    )
