"""The jobs and runs of other users, as their readers report them to root's server."""

import base64
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from andon.errors import AndonError, Unavailable
from andon.jobs.rules.views import JobListing
from andon.model.codec import Wrong, read
from andon.model.job.desk import JobAct, JobOutcome, LogPart
from andon.model.job.facts import JobView
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.node.seen.job_schemas import JobDone
from andon.node.seen.run_schemas import RunDetails, RunMarks, RunUpdate

MOST_ROWS = 2000
"""Jobs and runs of one user, the newest; more are not asked for."""
FRESH_SECONDS = 0.5
PIECE_BYTES = 256 * 1024
T = TypeVar("T")


class UserFileReader(Protocol):
    """The reader of one user."""

    def ask(self, what: str, **given: object) -> dict[str, Any]: ...


class UsersDesk(Protocol):
    """One user's jobs on this machine: a queue, what a reader tells of another user's, the demo's,
    or those that a node reported. A number means exactly that job."""

    user: str

    def listing(self) -> JobListing: ...

    def view(self, job: int) -> JobView: ...

    def log(
        self, job: int, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart: ...

    def act(self, act: JobAct, words: Sequence[int]) -> Sequence[JobOutcome]: ...


class CachedAnswer(Generic[T]):
    """The last answer of a reader, which sends it again only when it has changed."""

    def __init__(self, first: T) -> None:
        self.value, self.seen, self.read = first, "", float("-inf")


class UserFiles:
    """One user's jobs and runs. Whatever their reader answers counts for this user and no other."""

    def __init__(
        self, user: str, reader: UserFileReader, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.user, self._reader, self._monotonic = user, reader, monotonic
        self._jobs: CachedAnswer[JobListing] = CachedAnswer(JobListing(()))
        self._runs: CachedAnswer[Sequence[RunRow]] = CachedAnswer(())
        self._lock = threading.Lock()

    # Jobs.

    def listing(self) -> JobListing:
        return self._fresh("jobs", self._jobs, self._found_jobs)

    def view(self, job: int) -> JobView:
        return self._told(lambda: self._own_view(self._reader.ask("job", job=job)))

    def log(self, job: int, start: int | None, most: int, attempt: int | None = None) -> LogPart:
        said = self._reader.ask("log", job=job, start=start, most=most, attempt=attempt)
        found: LogPart = self._told(lambda: read(LogPart, said))
        return found

    def act(self, act: JobAct, words: Sequence[int]) -> list[JobOutcome]:
        self._jobs.read = float("-inf")
        return [self._done(self._reader.ask("act", job=job, act=act.value)) for job in words]

    def _done(self, said: dict[str, Any]) -> JobOutcome:
        found = self._told(lambda: read(JobDone, said))
        return JobOutcome(str(found.job), found.outcome, note=found.note)

    # Runs.

    def runs(self) -> Sequence[RunRow]:
        return self._fresh("runs", self._runs, self._found_runs)

    def run(self, run: str) -> RunDetails:
        said = self._reader.ask("run", run=run)
        found: RunDetails = self._told(lambda: read(RunDetails, said))
        return replace(found, user=self.user)

    def marks(self, run: str) -> RunMarks:
        said = self._reader.ask("marks", run=run)
        found: RunMarks = self._told(lambda: read(RunMarks, said))
        return found

    def news(self, run: str) -> RunUpdate:
        said = self._reader.ask("news", run=run)
        found: RunUpdate = self._told(lambda: read(RunUpdate, said))
        return found

    def record(self, run: str) -> tuple["UserRecord", int, str]:
        """Returns the record to read in pieces, its size and its name."""
        said = self._reader.ask("record", run=run)
        size, name = self._told(lambda: (read(int, said.get("size")), said.get("name")))
        return UserRecord(self._reader, run), max(0, size), str(name)[:255].replace("/", "_")

    # Helpers.

    def _fresh(self, what: str, kept: CachedAnswer[T], read: Callable[[dict[str, Any]], T]) -> T:
        with self._lock:
            now = self._monotonic()
            if now - kept.read >= FRESH_SECONDS:
                said = self._reader.ask(what, seen=kept.seen)
                if str(said.get("seen")) != kept.seen or not kept.seen:
                    kept.value = self._told(lambda: read(said))
                    kept.seen = str(said.get("seen"))[:80]
                kept.read = now
            return kept.value

    def _found_jobs(self, said: dict[str, Any]) -> JobListing:
        views = tuple(self._own_view(one) for one in _listed(said, "views"))
        return JobListing(views, read(bool, said.get("paused", False)))

    def _found_runs(self, said: dict[str, Any]) -> Sequence[RunRow]:
        return [replace(row_from_json(one), user=self.user) for one in _listed(said, "rows")]

    def _own_view(self, value: dict[str, Any]) -> JobView:
        return replace(read(JobView, value), user=self.user)

    def _told(self, read: Callable[[], T]) -> T:
        """Returns the reader's answer; an invalid one is reported as unavailable."""
        try:
            return read()
        except (Wrong, TypeError, ValueError, KeyError, AttributeError) as exc:
            raise Unavailable(f"the files of {self.user} cannot be read: {exc}"[:300]) from exc


class UserRecord:
    """A record in another user's folder, as a file to read from its beginning."""

    def __init__(self, reader: UserFileReader, run: str) -> None:
        self._reader, self._run, self._place = reader, run, 0

    def read(self, size: int) -> bytes:
        """Returns at most this many bytes; empty at the end, or if the record cannot be read."""
        try:
            said = self._reader.ask("piece", run=self._run, start=self._place, size=size)
            piece = base64.b64decode(str(said.get("piece")), validate=True)[:size]
        except (AndonError, ValueError):
            return b""
        self._place += len(piece)
        return piece

    def close(self) -> None:
        """Does nothing: no file is open between two pieces."""


class SharedFiles(Protocol):
    """The users of this machine, for a server that may look at their files."""

    def of(self, uid: int) -> UserFiles | None:
        """Returns the files of an account; None if there is none, and for the server's own user."""

    def known(self) -> Sequence[UserFiles]:
        """Returns the files of everyone who signed in here, holds GPUs or waits for them."""

    def named(self, user: str) -> UsersDesk | None:
        """Returns the jobs of a known user by name."""


def _listed(said: dict[str, Any], name: str) -> list[Any]:
    found = said.get(name)
    if not isinstance(found, list) or len(found) > MOST_ROWS:
        raise Wrong(name, f"is not a list of at most {MOST_ROWS}")
    return found
