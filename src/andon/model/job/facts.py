"""Jobs: what was submitted, what a scan of its folder finds, what is shown of it, and its JSON."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, replace

from andon.model.codec import (
    Count,
    ExitCode,
    Id,
    JsonDocument,
    Name,
    Names,
    Pid,
    Signed,
    Text,
    Texts,
    Time,
    Whole,
)
from andon.model.job.device_request import MOST_GPUS
from andon.model.job.progress import WorkProgress
from andon.model.job.spec import JobNumbers, JobSpec, Seconds, SomeJob
from andon.model.job.spec import dumps as dumps
from andon.model.job.spec import loads as loads

Lines = Annotated[tuple[Text, ...], Meta(max_length=MOST_GPUS)]
SignalNumber = Annotated[int, Meta(ge=0, le=128)]


class JobState(StrEnum):
    """The state of a job."""

    WAITING = "waiting"
    HELD = "held"  # until `andon jobs resume`
    LATER = "later"  # until the time of --begin
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"  # it ran longer than --for
    LOST = "lost"  # its supervisor was killed, or the machine restarted: its end is not known
    UNKNOWN = "unknown"  # its node does not report to the hub that shows it

    @property
    def is_settled(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self not in UNSETTLED

    @property
    def text(self) -> str:
        return self.value.replace("_", " ")


WAITS = frozenset((JobState.WAITING, JobState.HELD, JobState.LATER))
UNSETTLED = WAITS | {JobState.RUNNING, JobState.UNKNOWN}


class EndReason(StrEnum):
    """Why a supervisor ended a command, or that the command ended by itself."""

    EXITED = "exited"
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    RELEASED = "released"  # its lease was released by someone
    NOT_STARTED = "not_started"  # the command could not be started: see its exit code


class AttemptClaim(Struct, frozen=True):
    """What a supervisor wrote before it started the command."""

    pid: Pid  # the supervisor
    started_ticks: Count = field(name="start_ticks")
    boot: Name | None
    group: Pid  # of the command, which is in a session of its own
    group_ticks: Count  # when the command's first process started
    at: Time
    lease: Id | None = None
    devices: Names = ()  # uuids
    labels: Names = ()  # what people call them
    run: Id | None = None
    record: Text | None = None  # the path of the run's record
    node: Name | None = None


class AttemptEnd(Struct, frozen=True):
    """How an attempt ended, as its supervisor saw it."""

    reason: EndReason
    started: Time
    ended: Time
    seconds: Seconds  # on a clock that is never set
    exit_code: ExitCode | None = None
    signal: SignalNumber | None = None
    run: Id | None = None
    by: Name | None = None  # who cancelled or released it
    host_kills: Count = 0  # by the kernel's OOM killer meanwhile
    message: Text | None = None  # why it could not be started


class AttemptVerdict(Struct, frozen=True):
    """What the dispatcher found out about the end of an attempt: its state, the reason, and its
    memory."""

    state: Name  # a RunState
    words: Text
    out_of_memory: bool = False
    free_bytes: Whole | None = None  # of its smallest device when it was chosen


class AttemptFacts(Struct, frozen=True):
    """One attempt. A claim that is free without an end, and without a living group, is lost."""

    number: int
    claim: AttemptClaim
    locked: bool = False  # by a supervisor that lives
    alive: bool = False  # a process of the command's group lives
    end: AttemptEnd | None = None
    verdict: AttemptVerdict | None = None


class JobNote(Struct, frozen=True):
    """A request about a job: cancel it, or run it again. `attempt` says which one it is about."""

    attempt: SomeJob
    at: Time
    by: Name = ""
    reason: Text = ""


class JobFacts(Struct, frozen=True):
    """What a scan of a job's folder finds."""

    spec: JobSpec
    held: bool = False
    cancelled: JobNote | None = None
    again: JobNote | None = None
    expired: JobNote | None = None  # it waited too long, or for what no device here has
    order: float | None = None  # set by `jobs move`; the number otherwise
    attempts: tuple[AttemptFacts, ...] = ()

    @property
    def last(self) -> AttemptFacts | None:
        return self.attempts[-1] if self.attempts else None


class Holdup(Struct, frozen=True):
    """Why a job waits, as its dispatcher last saw it."""

    reason: Text
    since: Time
    expected_start: Time | None = None
    expected_from: Count = 0  # how many runs the expectation comes from
    details: Lines = ()  # a line for each device
    place: Count | None = None  # of its ticket in the queue of the machine


class JobView(Struct, frozen=True):
    """A job as it is shown: CLI, REST and the board."""

    number: SomeJob  # 0 for a job of a cluster
    label: Name  # 12, 12_3, or lab:4711_7 for a job of a cluster
    name: Text
    state: JobState
    command: Text  # without secrets
    folder: Text
    user: Name
    submitted_at: Time
    gpus: Name  # as requested: "2", "1..4", "all"
    reason: Text | None = None  # why it waits, or how it ended
    position: Count | None = None  # in the queue of the machine; the first is 1
    attempt: Count = 1
    attempts: Count = 0  # how many have begun
    memory_bytes: Whole | None = None
    simulated: bool = False
    priority: Signed = 0
    for_seconds: Seconds | None = None
    begin_at: Time | None = None
    after: JobNumbers = ()
    after_any: JobNumbers = ()
    array: SomeJob | None = None
    array_index: Count | None = None
    expected_start: Time | None = None
    expected_from: Count = 0
    devices: Names = ()  # what people call them
    device_uuids: Names = ()
    lease: Id | None = None
    run: Id | None = None
    record: Text | None = None
    pid: Pid | None = None  # the command's first process
    started: Time | None = None
    ended: Time | None = None
    seconds: Seconds | None = None
    exit_code: ExitCode | None = None
    signal: SignalNumber | None = None
    error: Text | None = None
    waiting_details: Lines = ()
    progress: WorkProgress | None = None  # of one that runs, if its output tells it
    environment: Texts = field(default_factory=dict)
    tags: Names = ()
    group: Text | None = None  # of its run
    params: Texts = field(default_factory=dict)  # of its run
    engine: Name | None = None  # the cluster it is on; None: this machine
    engine_id: Name | None = None  # what the cluster calls it
    where: Text | None = None  # on which node of the cluster, or in which of its queues


class JobList(JsonDocument, frozen=True):
    """Jobs as commands list them; paused: whether the queue starts none."""

    schema = "andon.jobs/1"
    paused: bool
    jobs: Sequence[JobView]


# The small files of a job; all untrusted.


class AdoptedClaim(Struct, frozen=True):
    """The fields of a claim that change when another supervisor takes over the attempt."""

    pid: Pid
    group: Pid
    group_ticks: Count
    started_ticks: Count = field(name="start_ticks")


def adopted(claim: AttemptClaim, by: AdoptedClaim | None) -> AttemptClaim:
    """Returns the claim of an attempt, with another supervisor's fields if one took over."""
    return claim if by is None else replace(claim, **asdict(by))
