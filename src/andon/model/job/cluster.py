"""Jobs and nodes of a cluster: what is submitted to one, and what it answers."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from andon.errors import Unavailable
from andon.model.codec import (
    Count,
    ExitCode,
    Id,
    Name,
    Names,
    Percent,
    Signed,
    Text,
    Texts,
    Time,
)
from andon.model.job.desk import Submission
from andon.model.job.facts import JobState, SignalNumber
from andon.model.job.spec import Seconds
from andon.model.shapes import Doc

ClusterId = Annotated[str, Meta(max_length=320, pattern=r"\A[^\s\x00-\x1f\ud800-\udfff]+\Z")]
"""What the cluster itself calls a job: `4711_7`, `default/andon-k3fh2m`."""


class NotSent(Unavailable):
    """Raised if a job was not sent to its cluster because the cluster had not answered before."""


class ClusterTask(Struct, frozen=True):
    """What andon inside a job knows about the job: who submitted what, and where its note goes."""

    cluster: Name
    label: Id
    name: Name
    notes: Text  # the folder of outputs
    runs: Text  # the folder of its user's records
    submitted_at: Time
    gpus: Count
    tags: Names = ()
    group: Name | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    quiet: bool = False  # its output is a file, which gets only errors
    forwards: bool = True  # its command gets signals only from us
    shares: bool = False  # several of its processes have the same GPU
    collected: bool = False  # its submitter merges its records into another one
    if_busy: str = ""  # a line of a shell that gives the job back, if that was not done before
    metrics: Texts = field(default_factory=dict)  # patterns of figures in its output, by name
    stop_when: Name | None = None  # such figures that make it hopeless


class ClusterJob(Struct, frozen=True):
    """A job as its cluster knows it; for an array, one of these for each element."""

    id: ClusterId
    name: Text
    state: JobState
    user: Name
    submitted_at: Time
    gpus: Count | None = None  # None: not known
    where: Text | None = None  # the node and its devices; of one that waits, the queue it is in
    command: Text | None = None  # without secrets
    reason: Text | None = None  # why it waits, or how it ended
    label: Id | None = None  # of its submission; None: another program's
    array: ClusterId | None = None  # the id of all elements together
    array_index: Count | None = None
    started: Time | None = None
    ended: Time | None = None
    exit_code: ExitCode | None = None
    signal: SignalNumber | None = None
    expected_start: Time | None = None
    for_seconds: Seconds | None = None
    run: Id | None = None  # its record, where andon runs inside
    has_log: bool = True  # whether `log` may find output
    short_of_gpus: bool = False  # it waits until a node has so many free
    advice: Text = ""  # what would help, in the cluster's own terms


class NoteFolder(Struct, frozen=True):
    """Where the jobs of a cluster note which records they have."""

    path: str
    own: bool = True  # the cluster runs a job as the user who submits it


class SubmissionNote(Struct, frozen=True):
    """What was written before a job was submitted to a cluster, and the id that came back."""

    cluster: Name
    at: Time
    submission: Submission
    id: Text | None = None  # None: no answer came
    ends: tuple[ClusterJob, ...] = ()  # of its jobs that have ended, the latest last
    identity: Text = ""  # which server it was sent to, and as whom; empty: not known


class GpuHolder(Struct, frozen=True):
    """Who has GPUs of a node, and how many of them were left idle for how long."""

    name: Name  # as the cluster lists it: `4711`, `team-a/notebook-7`
    gpus: Count
    since: Time | None = None
    until: Time | None = None  # when its time limit ends it
    alias: Name = ""  # what processes are marked with, where that is not its name
    devices: tuple[Count, ...] = ()  # on which it has a process
    idle_gpus: Count = 0
    idle_seconds: Seconds | None = None


class ClusterNode(Struct, frozen=True):
    """One machine of a cluster. A value that is not known is None, and `missing` says why."""

    name: Name
    state: Name  # in one word, the cluster's own: ready, drained
    usable: bool  # whether it takes jobs now
    gpus: Count
    allocated: Count  # given to jobs by the cluster, whatever they do with them
    free: Count
    model: Name | None = None
    utilization_percent: Percent | None = None
    memory_percent: Percent | None = None
    temperature_celsius: Signed | None = None
    note: Text | None = None  # why it takes no jobs, or who leaves its GPUs idle
    missing: Texts = field(default_factory=dict)
    busy: Count | None = None  # GPUs that really do something
    read_by: Name | None = None  # who reads them, where that is not andon
    who: Text | None = None  # who has its GPUs; None where the cluster shows that elsewhere
    host: Name | None = None  # its own name for itself, where the cluster has another
    holders: tuple[GpuHolder, ...] = ()


class HostOffer(Struct, frozen=True):
    """What a host answers before a job is submitted there: whether it would start at once."""

    gpus: Count  # that suit it
    free: Count  # of these, now
    devices: Names = ()  # those that it would get now; none: it would wait
    wanted: Count = 0  # GPUs for jobs that already wait there
    starts_in: Seconds | None = None  # 0: now; None: not known


class ClusterState(Struct, frozen=True):
    """One cluster: when it last answered, and what is wrong if it does not answer now."""

    name: Name
    at: Annotated[Time | None, Doc("when its jobs were as listed; null: never")]
    failing_since: Time | None
    trouble: Annotated[Text | None, Doc("why it does not answer; null while it does")]
