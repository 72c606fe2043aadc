"""Other users as nodes: their jobs and runs, as their readers report them to root's server."""

import base64
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Denied, Gone, Unavailable
from andon.jobs.rules.views import JobListing
from andon.model.codec import Wrong, read
from andon.model.job.desk import JobAct, JobName, JobOutcome, LogPart
from andon.model.job.facts import JobView
from andon.model.run.record import RunRow
from andon.model.run.wire import row_from_json
from andon.node.exact_desk import ExactDesk
from andon.node.job_schemas import JobDone
from andon.node.of_server import NodeOfServer
from andon.node.port import LiveReadings, NodeAlerts, NodeLeases, NodePast, NodeRuns
from andon.node.run_schemas import RunDetails, RunMarks, RunUpdate
from andon.runs.rules.matching import RunListing, RunQuery, counted, select
from andon.units import sh

MOST_ROWS = 2000
"""Jobs and runs of one user, the newest; more are not asked for."""
FRESH_SECONDS = 0.5
PIECE_BYTES = 256 * 1024
T = TypeVar("T")
V = TypeVar("V")


Ask = Callable[..., dict[str, Any]]
"""Queries the reader of one user, by the name of a query and its arguments."""


class CachedAnswer(Generic[T]):
    """The last answer of a reader, which sends an answer again only when it has changed."""

    def __init__(self, first: T) -> None:
        self.value, self.seen, self.read = first, "", float("-inf")


class UserRecord:
    """A record in another user's folder, as a file to read from its beginning."""

    def __init__(self, ask: Ask, run: str) -> None:
        self._ask, self._run, self._place = ask, run, 0

    def read(self, size: int) -> bytes:
        """Returns at most this many bytes; empty at the end, or if the record cannot be read."""
        try:
            answer = self._ask("piece", run=self._run, start=self._place, size=size)
            piece = base64.b64decode(str(answer.get("piece")), validate=True)[:size]
        except (AndonError, ValueError):
            return b""
        self._place += len(piece)
        return piece

    def close(self) -> None:
        """Does nothing: no file is open between two pieces."""


class Download(Struct, frozen=True):
    """A record to be sent to a client."""

    file: BinaryIO | UserRecord
    size: int
    name: str


class RunsOfUser(NodeRuns, Protocol):
    """The runs of one user, with what a server shows of each."""

    def details(self, row: RunRow) -> RunDetails: ...

    def marks(self, row: RunRow) -> RunMarks: ...

    def update(self, row: RunRow) -> RunUpdate:
        """Returns what is new in a record since the last call."""

    def download(self, row: RunRow) -> Download: ...

    def annotate(self, row: RunRow, pinned: bool | None, note: str | None) -> RunRow:
        """Pins a run, or writes a note on it; None leaves it as it is."""


class UserNode(NodeOfServer):
    """One user's jobs and runs on this machine, for a server that may show them."""

    simulated = recording = False

    def __init__(self, user: str, jobs: ExactDesk, runs: RunsOfUser) -> None:
        self.user, self.jobs, self.runs = user, jobs, runs

    @property
    def live(self) -> LiveReadings:
        raise _of_the_machine("devices", "status")

    @property
    def alerts(self) -> NodeAlerts:
        raise _of_the_machine("alerts", "alerts")

    @property
    def leases(self) -> NodeLeases:
        raise _of_the_machine("leases", "leases")

    @property
    def past(self) -> NodePast:
        raise _of_the_machine("history", "history")


def _of_the_machine(what: str, command: str) -> Unavailable:
    return Unavailable(f"{what} are no user's own: they are the machine's", f"andon {command}")


def read_user(user: str, ask: Ask, monotonic: Callable[[], float] = time.monotonic) -> UserNode:
    """Returns a node that gets this user's jobs and runs from their reader."""
    return UserNode(user, UserJobs(user, ask, monotonic), UserRuns(user, ask, monotonic))


class _Read(Generic[T]):
    """Reads one user's answers from their reader; they are trusted only for that user."""

    def __init__(self, user: str, ask: Ask, monotonic: Callable[[], float], first: T) -> None:
        self.user, self._ask, self._monotonic = user, ask, monotonic
        self._list = CachedAnswer(first)
        self._lock = threading.Lock()

    def _fresh(self, what: str, read: Callable[[dict[str, Any]], T]) -> T:
        """Returns the list, read again after a moment. While it is being read others get the last
        one, so that a reader that hangs holds only one thread."""
        if not self._lock.acquire(blocking=not self._list.seen):
            return self._list.value
        try:
            now, known = self._monotonic(), self._list
            if now - known.read >= FRESH_SECONDS:
                answer = self._ask(what, seen=known.seen)
                if str(answer.get("seen")) != known.seen or not known.seen:
                    known.value = self._valid(lambda: read(answer))
                    known.seen = str(answer.get("seen"))[:80]
                known.read = now
            return known.value
        finally:
            self._lock.release()

    def _valid(self, read: Callable[[], V]) -> V:
        """Returns the reader's answer; an invalid one is reported as unavailable."""
        try:
            return read()
        except (Wrong, TypeError, ValueError, KeyError, AttributeError) as exc:
            raise Unavailable(
                f"the files of {self.user} cannot be read: {exc}"[:300],
                hint="in a terminal of that user: andon jobs, andon runs",
            ) from exc


class UserJobs(_Read[JobListing], ExactDesk):
    """One user's queue."""

    def __init__(self, user: str, ask: Ask, monotonic: Callable[[], float]) -> None:
        super().__init__(user, ask, monotonic, JobListing(()))

    def listing(self, everyone: bool = False) -> JobListing:
        return self._fresh("jobs", self._found)

    def view(self, job: JobName) -> JobView:
        answer = self._ask("job", job=job)
        return self._valid(lambda: self._own(answer))

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        answer = self._ask("log", job=job, start=start, most=most, attempt=attempt)
        return self._valid(lambda: read(LogPart, answer))

    def acted(self, act: JobAct, job: JobName) -> list[JobOutcome]:
        answer = self._ask("act", job=job, act=act.value)
        self._list = CachedAnswer(JobListing(()))  # whoever asks now waits for what has changed
        done = self._valid(lambda: read(JobDone, answer))
        return [JobOutcome(str(done.job), done.outcome, note=done.note)]

    def _found(self, answer: dict[str, Any]) -> JobListing:
        views = [self._own(one) for one in _listed(answer, "views")]
        return JobListing.of(views, read(bool, answer.get("paused", False)))

    def _own(self, value: dict[str, Any]) -> JobView:
        return replace(read(JobView, value), user=self.user)


class UserRuns(_Read[Sequence[RunRow]], RunsOfUser):
    """The latest runs of one user."""

    def __init__(self, user: str, ask: Ask, monotonic: Callable[[], float]) -> None:
        super().__init__(user, ask, monotonic, ())

    def listed(self, query: RunQuery) -> RunListing:
        rows = self._fresh("runs", self._found)
        return RunListing(select(rows, query), counted(rows, query).runs)

    def resolve(self, word: str) -> RunRow:
        rows = self.find(RunQuery())
        row = only({row.id: row for row in rows if word and row.id.startswith(word)}, word)
        if row is None:
            raise Gone(f"{self.user} has no run {word[:64]!r} here", hint="andon runs")
        return row

    def record(self, row: RunRow) -> Path:
        raise Denied(
            f"the record of {row.id} is a file of {self.user}",
            hint=f"in a terminal of {self.user}: andon runs show {sh(row.id)}",
        )

    def details(self, row: RunRow) -> RunDetails:
        answer = self._ask("run", run=row.id)
        return replace(self._valid(lambda: read(RunDetails, answer)), user=self.user)

    def marks(self, row: RunRow) -> RunMarks:
        answer = self._ask("marks", run=row.id)
        return self._valid(lambda: read(RunMarks, answer))

    def update(self, row: RunRow) -> RunUpdate:
        answer = self._ask("news", run=row.id)
        return self._valid(lambda: read(RunUpdate, answer))

    def annotate(self, row: RunRow, pinned: bool | None, note: str | None) -> RunRow:
        answer = self._ask("annotate", run=row.id, pinned=pinned, note=note)
        self._list = CachedAnswer(())
        return replace(self._valid(lambda: row_from_json(answer)), user=self.user)

    def download(self, row: RunRow) -> Download:
        answer = self._ask("record", run=row.id)
        size, name = self._valid(lambda: (read(int, answer.get("size")), answer.get("name")))
        shown = str(name)[:255].replace("/", "_")
        return Download(UserRecord(self._ask, row.id), max(0, size), shown)

    def _found(self, answer: dict[str, Any]) -> Sequence[RunRow]:
        return [replace(row_from_json(one), user=self.user) for one in _listed(answer, "rows")]


class SharedUsers(Protocol):
    """The users of this machine, for a server that may show their jobs and runs."""

    def of(self, uid: int) -> UserNode | None:
        """Returns the node of this uid; None for the server's own user, or without an account."""
        return None

    def known(self) -> Sequence[UserNode]:
        """Returns the nodes of all users who have signed in here, hold GPUs or wait for them."""
        return ()

    def named(self, user: str) -> UserNode | None:
        """Returns the node of a known user by name."""


def everyones_jobs(users: SharedUsers | None) -> tuple[list[JobView], list[str]]:
    """Returns the jobs of all known users, and why those of some cannot be read."""
    views, notes = list[JobView](), list[str]()
    for one in () if users is None else users.known():
        try:
            views += one.jobs.listing().views
        except AndonError as error:
            notes.append(error.reason)
    return views, notes


def only(found: Mapping[str, T], run: str) -> T | None:
    """Returns the run with this id, else the only one of those whose ids begin with it."""
    if len(found) > 1 and run not in found:
        raise Conflict(f"{len(found)} runs begin with {run!r}", hint="give more of the id")
    return found.get(run) or next(iter(found.values()), None)


def _listed(answer: dict[str, Any], name: str) -> list[Any]:
    found = answer.get(name)
    if not isinstance(found, list) or len(found) > MOST_ROWS:
        raise Wrong(name, f"is not a list of at most {MOST_ROWS}")
    return found
