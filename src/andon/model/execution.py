"""A command to execute, the options of its container, and how it ended."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, field

from andon.errors import Invalid
from andon.model.device import Device
from andon.model.job.pull_policy import PullPolicy
from andon.model.vendors import MASKED

OUT_OF_HOST_MEMORY = "killed by the kernel: the container ran out of host memory (OOMKilled)"
UNLEASED = "free-"  # how the label of work without a lease begins
MASKS = frozenset(name for vendor in MASKED for name in vendor.environment)


class ContainerMount(NamedTuple):
    """A folder or file of this machine that the container sees."""

    source: str
    target: str
    readonly: bool


class ContainerOptions(Struct, frozen=True):
    """The options of a container, as typed."""

    image: Annotated[str, Meta(min_length=1)]
    mounts: tuple[ContainerMount, ...] = ()
    options: tuple[str, ...] = ()  # passed on to the engine as they are
    user: str | None = None
    pull: PullPolicy = PullPolicy.NEVER

    def __post_init__(self) -> None:
        if self.image.startswith("-"):  # the engine would take it for an option
            raise Invalid(f"{self.image[:40]!r} is not the name of an image")


class Submitter(Struct, frozen=True):
    """The user for whom a command is executed."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class WorkOrder(Struct, frozen=True):
    """A command to execute on devices. `label` finds it again: the id of its lease or job."""

    command: tuple[str, ...]
    folder: str
    label: str
    devices: tuple[Device, ...] = ()
    device_files: Mapping[str, str] = field(default_factory=dict)  # uuid -> its render node
    environment: Mapping[str, str] = field(default_factory=dict)  # what is added for the command
    submitter: Submitter = Submitter(0, 0)
    container: ContainerOptions | None = None
    stdin: bool = False
    terminal: bool = False
    shm_bytes: int | None = None
    home: str | None = None  # a temporary folder of this machine


class CreatedWork(Struct, frozen=True):
    """A command that an engine has made ready; it may not have been started yet."""

    id: str
    label: str
    program: str = ""
    image: str = ""
    home: str | None = None
    note: str = ""  # the name of the note that marks it as ours


class WorkEnd(Struct, frozen=True):
    """How it ended. `code` is as a shell reports it; None where only its client knows."""

    code: int | None
    host_out_of_memory: bool = False
    error: str = ""  # why it never started, in the engine's words
