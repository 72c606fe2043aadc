"""Jobs: what was submitted, what a scan of its folder finds, and what is shown of it."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from andon.model.job.progress import WorkProgress
from andon.model.job.spec import JobSpec


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

    @property
    def is_settled(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self not in UNSETTLED

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


UNSETTLED = frozenset((JobState.WAITING, JobState.HELD, JobState.LATER, JobState.RUNNING))


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

    pid: int  # the supervisor
    started_ticks: int
    boot: str | None
    group: int  # of the command, which is in a session of its own
    group_ticks: int  # when the command's first process started
    at: float
    lease: str | None = None
    devices: tuple[str, ...] = ()  # uuids
    labels: tuple[str, ...] = ()  # what people call them
    run: str | None = None
    record: str | None = None  # the path of the run's record
    node: str | None = None


class AttemptEnd(Struct, frozen=True):
    """How an attempt ended, as its supervisor saw it."""

    reason: EndReason
    started: float
    ended: float
    seconds: float  # on a clock that is never set
    exit_code: int | None = None
    signal: int | None = None
    run: str | None = None
    by: str | None = None  # who cancelled or released it
    host_kills: int = 0  # by the kernel's OOM killer meanwhile
    message: str | None = None  # why it could not be started


class AttemptVerdict(Struct, frozen=True):
    """What the dispatcher found out about an end: the words of its run, and the memory."""

    state: str  # a RunState
    words: str
    out_of_memory: bool = False
    free_bytes: int | None = None  # of its smallest device when it was chosen


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

    attempt: int
    at: float
    by: str = ""
    reason: str = ""


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

    reason: str
    since: float
    expected_start: float | None = None
    expected_from: int = 0  # how many runs the expectation comes from
    details: tuple[str, ...] = ()  # a line for each device


class JobView(Struct, frozen=True):
    """A job as it is shown: CLI, REST and the board."""

    number: int
    label: str
    name: str
    state: JobState
    command: str  # without secrets
    folder: str
    user: str
    submitted_at: float
    gpus: str  # as requested: "2", "1..4", "all"
    reason: str | None = None  # why it waits, or how it ended
    position: int | None = None  # among those that wait; the first is 1
    attempt: int = 1
    attempts: int = 0  # how many have begun
    memory_bytes: int | None = None
    simulated: bool = False
    priority: int = 0
    for_seconds: float | None = None
    begin_at: float | None = None
    after: tuple[int, ...] = ()
    after_any: tuple[int, ...] = ()
    array: int | None = None
    array_index: int | None = None
    expected_start: float | None = None
    expected_from: int = 0
    devices: tuple[str, ...] = ()  # what people call them
    device_uuids: tuple[str, ...] = ()
    lease: str | None = None
    run: str | None = None
    record: str | None = None
    pid: int | None = None  # the command's first process
    started: float | None = None
    ended: float | None = None
    seconds: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    waiting_details: tuple[str, ...] = ()
    progress: WorkProgress | None = None  # of one that runs, if its output tells it
    environment: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    group: str | None = None  # of its run
    params: Mapping[str, str] = field(default_factory=dict)  # of its run
