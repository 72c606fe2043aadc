"""The answers about jobs."""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct, field

from andon.model.job.cluster import ClusterState
from andon.model.job.facts import JobView
from andon.model.shapes import Doc


class PageScope(StrEnum):
    """Whose jobs or runs a page lists."""

    SERVER = "server"  # of the user who runs the server
    OWN = "own"  # of the caller, on a server that root runs
    EVERYONE = "everyone"  # of all users, for root
    NODE = "node"  # of all users of another machine, as it reported them to a hub


class QueuePlace(Struct, frozen=True):
    """One place in the queue of this machine: whose, for how many GPUs, since when and why."""

    position: int
    user: str
    gpus: int
    memory_bytes: int | None
    since: float
    jobs_behind: Annotated[int | None, Doc("the user's jobs that wait after it; null: not a job")]
    reason: Annotated[str, Doc("why it waits")]


class JobCounts(Struct, frozen=True):
    """Of all jobs, whichever are listed."""

    waiting: int = 0
    running: int = 0
    ended: int = 0


JobName = Annotated[int | str, Doc("its number, or NAME:ID of a job of a cluster")]


class JobPage(Struct, frozen=True):
    """Jobs of this machine and of clusters, the newest first, and the queue of the machine:
    everyone's, without names."""

    at: float
    user: Annotated[
        str, Doc("whose jobs are listed; for root of everyone, the server's user; empty of a node")
    ]
    scope: PageScope
    shared: Annotated[bool, Doc("whether this server shows each user who signs in their own")]
    whole: bool  # whether names, commands and reasons are included
    paused: bool
    may_submit: bool
    counts: JobCounts
    jobs: tuple[JobView, ...] = ()
    queue: tuple[QueuePlace, ...] = ()
    clusters: tuple[ClusterState, ...] = ()
    note: str | None = None


class JobLog(Struct, frozen=True):
    """The end of a job's output; `start` and `end` are the positions of the text in the file."""

    job: JobName
    attempt: int | None
    start: int
    end: int
    text: str
    ended: bool  # nothing more will come


class JobDone(Struct, frozen=True):
    """The result of a request to cancel, retry, requeue, move, hold or resume a job."""

    job: JobName
    outcome: str
    note: Annotated[str | None, Doc("what is still needed, if anything")] = None


class JobsQueued(Struct, frozen=True):
    """The numbers of new jobs."""

    jobs: tuple[int, ...] = field(default_factory=tuple)
