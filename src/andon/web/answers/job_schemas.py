"""The answers about jobs."""

from dataclasses import dataclass, field

from andon.model.job import JobView


@dataclass(frozen=True, slots=True)
class OthersWaiting:
    """What the book says about another user's jobs: a place in the queue, and how many follow."""

    user: str
    position: int
    gpus: int
    since: float
    jobs_behind: int


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Of all jobs, whichever are listed."""

    waiting: int = 0
    running: int = 0
    ended: int = 0


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs of the user who runs the server, newest first; for other users, what the book says."""

    at: float
    user: str
    whole: bool  # whether names, commands and reasons are included
    paused: bool
    may_submit: bool
    counts: JobCounts
    jobs: tuple[JobView, ...] = ()
    others: tuple[OthersWaiting, ...] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class JobLog:
    """The end of a job's output; `start` and `end` are the positions of the text in the file."""

    job: int
    attempt: int | None
    start: int
    end: int
    text: str
    ended: bool  # nothing more will come


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """The result of a request to cancel."""

    job: int
    outcome: str


@dataclass(frozen=True, slots=True)
class JobsQueued:
    """The numbers of new jobs."""

    jobs: tuple[int, ...] = field(default_factory=tuple)
