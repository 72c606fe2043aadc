"""What a person has chosen in `andon top`: one frozen value, changed only by `reducers`."""

from enum import StrEnum

from msgspec import Struct, field


class TopView(StrEnum):
    """A page of top; each has a key of its own."""

    DEVICES = "devices"
    PROCESSES = "processes"
    ALERTS = "alerts"
    LEASES = "leases"
    JOBS = "jobs"
    RUNS = "runs"
    USERS = "users"
    DEVICE = "device"  # one device's own page
    PROCESS = "process"  # one process's details


class Focus(StrEnum):
    """Which table of the first view the cursor is in."""

    DEVICES = "devices"
    PROCESSES = "processes"


class PromptKind(StrEnum):
    """What is being typed at the bottom of the screen."""

    FILTER = "filter"
    USER = "user"


ProcessKey = tuple[int, float | None, str]
"""A process on a device: pid, start time and the device's uuid."""
SPANS = (60.0, 300.0, 1800.0, 7200.0, 43200.0, 86400.0)
INTERVALS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Prompt(Struct, frozen=True):
    """A line that is being typed; `before` is what Escape returns to."""

    kind: PromptKind
    text: str = ""
    before: str = ""


class ProcessChoice(Struct, frozen=True):
    """Which processes are shown, and how; the parts that are remembered come first."""

    sort: str = "memory"
    reverse: bool = False
    tree: bool = False
    hidden: frozenset[str] = frozenset()  # columns
    text: str = ""
    user: str | None = None
    device: str | None = None  # a uuid
    mine: bool = False
    compute_only: bool = False

    @property
    def is_filtered(self) -> bool:
        return bool(self.text or self.user or self.device or self.mine or self.compute_only)


class ShownNotice(Struct, frozen=True):
    """One line for the user, shown for a limited time."""

    text: str
    until: float
    style: str = ""


class TopState(Struct, frozen=True):
    """Everything that a key can change."""

    view: TopView = TopView.DEVICES
    back: tuple[TopView, ...] = ()
    focus: Focus = Focus.DEVICES
    device: str | None = None  # the uuid under the cursor
    worst: str | None = None  # the same while nobody has chosen: it follows the trouble
    process: ProcessKey | None = None
    place: int = 0  # where the process under the cursor was listed: its neighbour comes next
    follow: ProcessKey | None = None
    rows: dict[str, int] = field(default_factory=dict)  # view -> row of its cursor
    processes: ProcessChoice = ProcessChoice()
    graphs: bool = True
    span_seconds: float = 300.0
    interval_seconds: float = 1.0
    paused: bool = False
    help: bool = False
    menu: int | None = None  # the row of the column menu, where it is open
    environment: bool = False
    prompt: Prompt | None = None
    copied: str | None = None  # shown until the next key: a terminal may refuse to copy
    notice: ShownNotice | None = None
    can_end: bool = True  # not with --readonly, nor where the processes are another machine's
    replayed: bool = False  # whether a recording is played

    def row(self) -> int:
        """Returns the cursor's row in a plain list."""
        return self.rows.get(self.view, 0)


# What the app must do for an action, besides showing the new state.


class EffectKind(StrEnum):
    """What the app has to do besides showing the new state."""

    QUIT = "quit"
    COPY = "copy"
    END = "end"  # ask whether to end the process under the cursor
    INTERVAL = "interval"
    PAST = "past"  # another span of the past is needed
    ENVIRONMENT = "environment"
    PAUSE = "pause"
    STEP = "step"
    STEP_BACK = "step_back"
    REDRAW = "redraw"
    SUSPEND = "suspend"


class Effect(Struct, frozen=True):
    """One thing to do, and with what."""

    kind: EffectKind
    text: str = ""


Outcome = tuple[TopState, tuple[Effect, ...]]
"""The state after an action, and what is to be done."""
