"""The values that go to a job desk and come back: submissions, outcomes, output, reasons."""

from collections.abc import Sequence
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta, Struct

from andon.errors import AndonError
from andon.model.codec import Count, Id, Name, Names, Text
from andon.model.job import SEPARATOR, is_host
from andon.model.job.spec import MOST_ARRAY, Elements, JobSpec

if TYPE_CHECKING:  # `submit` must be quick
    from andon.model.job.facts import JobView

MOST_LOG_BYTES = 1 << 20
"""Of a part of an output."""
JobName = str | int
"""A job as people name it, or exactly by its number."""
JobNames = Annotated[tuple[Name, ...], Meta(max_length=MOST_ARRAY)]
"""Jobs as people name them: 12, train, lab:4711."""


class Able(StrEnum):
    """What a desk can do with a job: options that it takes, and acts."""

    AFTER = auto()
    ARRAY = auto()
    ARRAY_LIMIT = auto()
    BEGIN = auto()
    BIND = auto()
    CHECK = auto()  # its devices, before it starts
    CHECKPOINT = auto()
    CONTAINER_OPTIONS = auto()
    DEVICES = auto()  # by index, label or preference
    ENGINE_OPTIONS = auto()
    EVERY_GPU = auto()
    GPU_RANGE = auto()
    IMAGE = auto()
    MEMORY = auto()
    METRICS = auto()
    MODEL = auto()
    MODELS = auto()  # one of several
    MOUNTS = auto()
    NOTIFY = auto()
    PER_GPU = auto()
    PRIORITY = auto()
    RESERVATION = auto()
    RETRIES = auto()
    RETRY_LOST = auto()
    RETRY_OOM = auto()
    SHARED = auto()
    STOP_WHEN = auto()
    TIMEOUT = auto()
    UNIQUE = auto()
    USER_BY_NAME = auto()  # of a container
    QUEUED = auto()  # hold, resume, retry, requeue, move and rm
    PREVIEW = auto()
    FOREGROUND = auto()


class JobAct(StrEnum):
    """What is done to jobs."""

    CANCEL = "cancel"
    RETRY = "retry"
    REQUEUE = "requeue"
    FIRST = "first"  # to the front of the user's own queue
    LAST = "last"
    HOLD = "hold"
    RESUME = "resume"
    REMOVE = "rm"


def cluster_in(word: JobName) -> str:
    """Returns the name of the cluster in NAME:ID, or of the host's queue in ssh:HOST:ID; empty for
    any other name."""
    name, _, job = str(word).partition(SEPARATOR)
    if is_host(str(word)):
        name = str(word).rpartition(SEPARATOR)[0]
    return name if job else ""


class Submission(Struct, frozen=True):
    """A job for a desk, or an array of them. A cluster stores the label with the job, so that
    submitting the same label again finds it and never makes a second job. Number, array and
    dependencies are fields of the submission, not of the job.
    """

    label: Id
    job: JobSpec
    after: JobNames = ()  # these must have succeeded
    after_any: JobNames = ()  # these must have ended
    indices: Annotated[tuple[Elements, ...], Meta(max_length=MOST_ARRAY)] = ()  # of an array
    limit: Elements | None = None  # how many of the array may run at once
    options: Names = ()  # in the cluster's own words, passed on unchanged
    per_gpu: Count = 0  # processes for each GPU, which see that one alone; 0: one that sees all
    variables: Names = ()  # names of those that the job itself sets
    runs: Text = ""  # the folder of its records, if they become a part of another one


class Accepted(Struct, frozen=True):
    """The outcome of a submission."""

    submission: Submission
    label: Name  # 12, or lab:4711; of an array, that of all elements
    is_new: bool = True  # else the same job waits or runs already
    note: Text = ""  # which nodes it prefers
    preview: Text = ""  # in a dry run, what would be sent, if the desk has words of its own


class Found(NamedTuple):
    """The jobs that names refer to, each once, and the errors for the other names."""

    views: "Sequence[JobView]"
    errors: "Sequence[AndonError]" = ()


class JobOutcome(Struct, frozen=True):
    """What an act did to one job."""

    label: Name
    text: Text = ""
    error: AndonError | None = None
    note: Text | None = None  # what is still needed


class LogPart(Struct, frozen=True):
    """A part of a job's output; `start` and `end` are positions in bytes."""

    start: Count
    end: Count
    text: str
    ended: bool  # nothing more will come
    attempt: Count | None = None  # None: it has not begun, or there is one alone


class JobReason(Struct, frozen=True):
    """Why a job waits, or how it ended, and what would help."""

    text: Text
    advice: Text = ""
